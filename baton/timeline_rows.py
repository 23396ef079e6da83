"""What a timeline shows, from the facts of a run: rows of blocks in sections, before any page is made of them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from baton.durations import format_duration
from baton.gaps import Gap, gaps
from baton.models import Stored
from baton.run_facts import RunFacts
from baton.status import PAUSE, AttentionItem, Wait
from baton.trace import TraceLine
from baton.wording import counted, number

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_WAITED_FOR = {"slot": "a slot", "merge_queue": "its turn to be merged", "quota": "the provider"}
_MODEL_ENDINGS = frozenset(("end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn"))


class Block(Stored):
    """Something that took its time. `kind`: model, tool, gate, merge, wait (for a person), held (by anything else), or
    gap: nothing was told then, and whoever came next did it again."""

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
    """Rows that belong together; `numbers` are their sums."""

    title: str
    rows: tuple[Row, ...]
    numbers: tuple[str, ...] = ("", "", "")


def span(facts: RunFacts) -> tuple[datetime, datetime]:
    """From the first to the last moment that anything is known of."""
    moments = [line.began for line in facts.trace.lines] + [line.at for line in facts.trace.lines]
    moments += [wait.since for wait in facts.status.waits] + [wait.until for wait in facts.status.waits]
    moments += [item.since for item in facts.status.attention]
    moments += [facts.status.paused_since] if facts.status.paused_since else []
    moments += [moment for moment in (facts.status.started_at, facts.status.closed_at, facts.seen_at) if moment]
    return (min(moments), max(moments)) if moments else (_BEGINNING, _BEGINNING + timedelta(seconds=1))


def sections(facts: RunFacts) -> tuple[Section, ...]:
    """The task's own rows and agents before any step first, then the steps by number, then what came after them.

    Chains stand in the order in which they began to work, each with its successors below it.
    """
    agents = facts.trace.by_agent()
    steps = _steps_of(agents)
    works = {agent: _works_from(lines) for agent, lines in agents.items()}
    chains: dict[str, datetime] = {}
    for agent, began in works.items():
        chain = agent.partition("~")[0]
        chains[chain] = min(began, chains.get(chain, began))
    ordered = sorted(agents, key=lambda agent: (chains[chain := agent.partition("~")[0]], chain, works[agent], agent))
    of_steps = [agent for agent in ordered if steps[agent] is not None]
    first = min((works[agent] for agent in of_steps), default=None)
    alone = [agent for agent in ordered if steps[agent] is None]
    early = [agent for agent in alone if first is None or works[agent] <= first]
    titles = {step.step: f"{step.step}. {step.agent_type}: {step.description}" for step in facts.steps}
    found = [Section(title="", rows=(*_task_rows(facts), *(_agent_row(agent, agents[agent]) for agent in early)))]
    for step in sorted({step for step in steps.values() if step is not None}):
        own = [agent for agent in of_steps if steps[agent] == step]
        rows = tuple(_agent_row(agent, agents[agent]) for agent in own)
        sums = _numbers([line for agent in own for line in agents[agent]])
        found.append(Section(title=titles.get(step, f"step {step}"), rows=rows, numbers=sums))
    late = tuple(_agent_row(agent, agents[agent]) for agent in alone if agent not in early)
    found.append(Section(title="beside the steps" if late else "", rows=late))
    return tuple(section for section in found if section.rows)


def _works_from(lines: Sequence[TraceLine]) -> datetime:
    """When an agent began; what it waited for before does not count."""
    return min((line.began for line in lines if line.kind != "wait"), default=lines[0].at)


def _numbers(lines: Sequence[TraceLine]) -> tuple[str, ...]:
    """Turns, output tokens and cost of the model calls among the lines."""
    calls = [line for line in lines if line.kind == "model"]
    turns = len({(line.agent, line.turn) for line in calls if not line.name})
    cost = sum((line.cost_usd for line in calls), Decimal(0))
    return (number(turns), number(sum(line.output_tokens for line in calls)), f"{cost:.2f}")


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
            hint=f"gate {line.name} ({line.workspace}): {line.outcome}, {line.seconds:.1f} s{_tried(line)}",
            bad=line.outcome == "failed",
        )
        for line in facts.trace.of("gate")
    ]
    gates += [_told_gap(line) for line in facts.trace.of("gap") if line.name == "gate"]
    if gates:
        yield Row(label="gates", kind="task", blocks=tuple(gates))
    merges = [_merge(line) for line in facts.trace.of("merge")]
    merges += [_wait(line) for line in facts.trace.of("wait") if not line.agent]
    merges += [_told_gap(line) for line in facts.trace.of("gap") if line.name == "merge"]
    if merges:
        yield Row(label="merges", kind="task", blocks=tuple(merges))
    if waits := _persons(facts):
        yield Row(label="waits", kind="task", blocks=waits)


def _persons(facts: RunFacts) -> tuple[Block, ...]:
    """What waited for a person, in order of time: all that the trace tells, what the status knows beyond that, and what
    is open."""
    told = [
        Wait(kind=line.name, step=line.step, phase=line.phase or None, since=line.asked, until=line.at)
        for line in facts.trace.of("attention")
        if line.asked is not None
    ]
    waits = {_question(wait): wait for wait in (*told, *facts.status.waits)}
    end = span(facts)[1]
    blocks = []
    for item in facts.status.attention:
        until = waits.pop(key).until if (key := _question(item)) in waits else end
        hint = f"waits for a person: {item.kind}: {item.question[:300]}"
        blocks.append(Block(kind="wait", begin=item.since, end=until, hint=hint))
    if (since := facts.status.paused_since) is not None:
        blocks.append(Block(kind="wait", begin=since, end=end, hint="paused by a person"))
    for wait in waits.values():
        hint = f"{_person(wait)}, {format_duration(wait.until - wait.since)}"
        blocks.append(Block(kind="wait", begin=wait.since, end=wait.until, hint=hint))
    return tuple(sorted(blocks, key=lambda block: block.begin))


def _question(asked: Wait | AttentionItem) -> tuple[object, ...]:
    return (asked.kind, asked.step, asked.phase, asked.since)


def _person(wait: Wait) -> str:
    if wait.kind == PAUSE:
        return "paused by a person"
    return f"waited for a person: {wait.kind} {wait.phase or ''}"


def _merge(line: TraceLine) -> Block:
    what = "integration" if line.step is None else f"step {line.step}"
    paths = f" in {', '.join(line.paths[:10])}" if line.paths else ""
    hint = f"{what}: {line.outcome}{paths}, {line.seconds:.1f} s"
    return Block(kind="merge", begin=line.began, end=line.at, hint=hint, bad=line.outcome == "conflict")


def _agent_row(agent: str, lines: Sequence[TraceLine]) -> Row:
    calls = [line for line in lines if line.kind == "model"]
    blocks = [_model(line) for line in calls]
    blocks += [_wait(line) for line in lines if line.kind == "wait"]
    blocks += [_gap(gap) for gap in gaps(lines)]
    blocks += [_told_gap(line) for line in lines if line.kind == "gap"]
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
        numbers=_numbers(lines),
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
        f"{line.cost_usd:.4f} USD, {line.outcome}{told}{_tried(line)}"
    )
    return Block(kind="model", begin=line.began, end=line.at, hint=hint, bad=broken)


def _wait(line: TraceLine) -> Block:
    what = "" if line.step is None or line.agent else f"step {line.step} "
    hint = f"{what}waited for {_WAITED_FOR.get(line.name, line.name)}, {line.seconds:.1f} s"
    return Block(kind="held", begin=line.began, end=line.at, hint=hint)


def _gap(gap: Gap) -> Block:
    return Block(kind="gap", begin=gap.begin, end=gap.end, hint=_silence(gap.length, gap.again.attempt))


def _told_gap(line: TraceLine) -> Block:
    return Block(kind="gap", begin=line.began, end=line.at, hint=_silence(line.at - line.began, line.attempt))


def _silence(length: timedelta, attempt: int) -> str:
    told = f"nothing told for {length.total_seconds():.1f} s"
    return f"{told}: the attempt before broke off; attempt {attempt} went on"


def _commands(line: TraceLine) -> Block:
    hint = f"{counted(line.calls, 'command')}: {line.outcome}, {line.seconds:.1f} s"
    return Block(kind="tool", begin=line.began, end=line.at, hint=hint, bad=line.outcome != "ok")


def _tried(line: TraceLine) -> str:
    return f", attempt {line.attempt}" if line.attempt > 1 else ""


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
