"""What a timeline shows, from the facts of a run: rows of blocks in sections, before any page is made of them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from baton.durations import format_duration
from baton.models import Stored
from baton.run_facts import RunFacts
from baton.trace import TraceLine
from baton.wording import counted, number

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_WAITED_FOR = {"slot": "a slot", "merge_queue": "its turn to be merged", "quota": "the provider"}
_MODEL_ENDINGS = frozenset(("end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn"))


class Block(Stored):
    """Something that took its time. `kind`: model, tool, gate, merge or wait."""

    kind: str
    begin: datetime
    end: datetime
    hint: str
    bad: bool = False


class Row(Stored):
    """A row. `begin` to `end` is drawn as its life; `ending` stands behind it; `numbers`: turns, tokens, cost."""

    label: str
    hint: str = ""
    kind: str = ""
    begin: datetime | None = None
    end: datetime | None = None
    blocks: tuple[Block, ...] = ()
    ending: str = ""
    numbers: tuple[str, ...] = ("", "", "")


class Section(Stored):
    """Rows that belong together."""

    title: str
    rows: tuple[Row, ...]


def span(facts: RunFacts) -> tuple[datetime, datetime]:
    """From the first to the last moment that anything is known of."""
    moments = [line.began for line in facts.trace.lines] + [line.at for line in facts.trace.lines]
    moments += [wait.since for wait in facts.status.waits] + [wait.until for wait in facts.status.waits]
    moments += [moment for moment in (facts.status.started_at, facts.status.closed_at) if moment]
    return (min(moments), max(moments)) if moments else (_BEGINNING, _BEGINNING + timedelta(seconds=1))


def sections(facts: RunFacts) -> tuple[Section, ...]:
    """The task's own rows first, then one section per step, its agents in the order in which they began."""
    found = [Section(title="", rows=tuple(_task_rows(facts)))]
    agents: dict[str, list[TraceLine]] = {}
    for line in facts.trace.lines:
        if line.agent:
            agents.setdefault(line.agent, []).append(line)
    by_step: dict[int | str, list[Row]] = {}
    steps = _steps_of(agents)
    for agent, lines in sorted(agents.items(), key=lambda pair: (pair[1][0].began, pair[0])):
        by_step.setdefault(steps[agent] or lines[0].role, []).append(_agent_row(agent, lines))
    titles = {step.step: f"{step.step}. {step.agent_type}: {step.description}" for step in facts.steps}
    for step, rows in sorted(by_step.items(), key=lambda pair: pair[1][0].begin or _BEGINNING):
        title = step if isinstance(step, str) else titles.get(step, f"step {step}")
        found.append(Section(title=title, rows=tuple(rows)))
    return tuple(section for section in found if section.rows)


def _steps_of(agents: dict[str, list[TraceLine]]) -> dict[str, int | None]:
    return {
        agent: next((line.step for line in lines if line.step is not None), None) for agent, lines in agents.items()
    }


def _task_rows(facts: RunFacts) -> Iterable[Row]:
    gates = [
        Block(
            kind="gate",
            begin=line.began,
            end=line.at,
            hint=f"gate {line.name} ({line.workspace}): {line.outcome}, {line.seconds:.1f} s",
            bad=line.outcome == "failed",
        )
        for line in facts.trace.of("gate")
    ]
    if gates:
        yield Row(label="gates", kind="task", blocks=tuple(gates))
    merges = [_merge(line) for line in facts.trace.of("merge")]
    merges += [_wait(line) for line in facts.trace.of("wait") if not line.agent]
    if merges:
        yield Row(label="merges", kind="task", blocks=tuple(merges))
    waits = [
        Block(
            kind="wait",
            begin=wait.since,
            end=wait.until,
            hint=f"waited for a person: {wait.kind} {wait.phase or ''}, {format_duration(wait.until - wait.since)}",
        )
        for wait in facts.status.waits
    ]
    if waits:
        yield Row(label="waits", kind="task", blocks=tuple(waits))


def _merge(line: TraceLine) -> Block:
    what = "integration" if line.step is None else f"step {line.step}"
    paths = f" in {', '.join(line.paths[:10])}" if line.paths else ""
    hint = f"{what}: {line.outcome}{paths}, {line.seconds:.1f} s"
    return Block(kind="merge", begin=line.began, end=line.at, hint=hint, bad=line.outcome == "conflict")


def _agent_row(agent: str, lines: Sequence[TraceLine]) -> Row:
    calls = [line for line in lines if line.kind == "model"]
    blocks = [_model(line) for line in calls]
    blocks += [_wait(line) for line in lines if line.kind == "wait"]
    blocks += [_commands(line) for line in lines if line.kind == "command"]
    blocks += _tools([line for line in lines if line.kind in ("tool", "foreign")])
    ended = next((line for line in lines if line.kind == "ended"), None)
    cost = sum((line.cost_usd for line in calls), Decimal(0))
    turns = len({line.turn for line in calls if not line.name})
    output = number(sum(line.output_tokens for line in calls))
    _, successor, generation = agent.rpartition("~")
    return Row(
        label=f"~{generation}" if successor else agent,
        hint=f"{agent}: {turns} turns, {output} output tokens, {cost:.3f} USD",
        kind="successor" if successor else "agent",
        begin=min(line.began for line in lines),
        end=max(line.at for line in lines),
        blocks=tuple(blocks),
        ending=_ending(ended),
        numbers=(str(turns), output, f"{cost:.2f}"),
    )


def _ending(ended: TraceLine | None) -> str:
    if ended is None or not ended.successor:
        return "" if ended is None or ended.outcome == "subtask_complete" else ended.outcome.replace("_", " ")
    _, _, generation = ended.successor.rpartition("~")
    return f"→ ~{generation} {ended.outcome.replace('_', ' ')}"


def _model(line: TraceLine) -> Block:
    broken = line.outcome not in _MODEL_ENDINGS
    told = f", HTTP {line.status}" if line.status else ""
    tokens = f"{number(line.input_tokens)} tokens in ({number(line.cache_read_tokens)} cached)"
    what = line.name or f"turn {line.turn}"
    hint = (
        f"{what}: {line.model}, {line.seconds:.1f} s, {tokens}, {number(line.output_tokens)} out, "
        f"{line.cost_usd:.4f} USD, {line.outcome}{told}"
    )
    return Block(kind="model", begin=line.began, end=line.at, hint=hint, bad=broken)


def _wait(line: TraceLine) -> Block:
    what = "" if line.step is None or line.agent else f"step {line.step} "
    hint = f"{what}waited for {_WAITED_FOR.get(line.name, line.name)}, {line.seconds:.1f} s"
    return Block(kind="wait", begin=line.began, end=line.at, hint=hint)


def _commands(line: TraceLine) -> Block:
    hint = f"{counted(line.calls, 'command')}: {line.outcome}, {line.seconds:.1f} s"
    return Block(kind="tool", begin=line.began, end=line.at, hint=hint, bad=line.outcome != "ok")


def _tools(lines: Sequence[TraceLine]) -> list[Block]:
    """The tool calls of a turn as one block, since most take a moment."""
    turns: dict[int, list[TraceLine]] = {}
    for line in lines:
        turns.setdefault(line.turn, []).append(line)
    blocks = []
    for turn, calls in turns.items():
        names = ", ".join(_tool(call) for call in calls[:8]) + (f" and {len(calls) - 8} more" if len(calls) > 8 else "")
        blocks.append(
            Block(
                kind="tool",
                begin=min(call.began for call in calls),
                end=max(call.at for call in calls),
                hint=f"turn {turn}: {names}",
                bad=any(call.outcome == "error" or call.kind == "foreign" for call in calls),
            )
        )
    return blocks


def _tool(call: TraceLine) -> str:
    if call.kind == "foreign":
        return f"restored {len(call.paths)} files of others"
    return " ".join(filter(None, (call.tool, call.path, "(error)" if call.outcome == "error" else "")))
