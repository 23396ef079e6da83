"""What is said at the end of a task, and the exit code that its state means. Pure."""

import shlex
from pathlib import Path
from typing import Any

from baton.ledger import ItemCounts
from baton.pricing import Usage
from baton.states import TaskState
from baton.status import TaskResult, TaskStatus
from baton.wording import counted, number
from cli.exits import ExitCode
from cli.look import Look
from cli.tasks import Ending
from cli.terminal import Line, Tone

EXIT_CODES = {
    TaskState.DONE: ExitCode.DONE,
    TaskState.PARTIAL: ExitCode.PARTIAL,
    TaskState.FAILED: ExitCode.FAILED,
    TaskState.CANCELLED: ExitCode.FAILED,
    TaskState.WAITING: ExitCode.WAITING,
    TaskState.RUNNING: ExitCode.DONE,
}
_WORDS = {
    TaskState.DONE: ("Done", Tone.GOOD),
    TaskState.PARTIAL: ("Partly done", Tone.WAITS),
    TaskState.FAILED: ("Failed", Tone.BAD),
    TaskState.CANCELLED: ("Cancelled", Tone.BAD),
}


def exit_code(ending: Ending) -> ExitCode:
    """The exit code of an ended task."""
    return ExitCode.BAD_INPUT if ending.bad_input else EXIT_CODES[ending.state]


def ending_lines(look: Look, ending: Ending, page: str | None) -> list[Line]:
    """The end of a task for a person: what came of it, where it is, what to do next."""
    status, result = look.status, ending.result
    word, tone = _WORDS.get(ending.state, (str(ending.state), Tone.PLAIN))
    summary = (result.summary if result else "") or status.summary or ending.fault
    if ending.terminated:
        word, summary = "Terminated", ending.terminated
    lines = [Line(f"{word}: {summary}" if summary else word, tone)]
    items = result.items if result else status.items
    usage = result.usage if result else look.usage
    agents, handoffs = (result.agents, result.handoffs) if result else (look.agents, status.handoffs)
    lines += _figures(items, usage, agents, handoffs)
    lines += _gates(result) if result else []
    lines += _branch(status, result.ref if result else status.ref)
    artifacts = (result.artifacts if result else "") or status.artifacts
    if artifacts and Path(artifacts, "report.md").is_file():
        lines.append(_field("report", f"{artifacts}/report.md"))
    if page is not None:
        lines.append(_field("details", page))
    return lines


def ending_json(look: Look, ending: Ending, page: str | None) -> dict[str, Any]:
    """The same for a program: the workflow's result, with the fault where there is none."""
    shown: dict[str, Any] = {"task_id": look.status.task_id, "state": str(ending.state)}
    if ending.result is not None:
        shown |= ending.result.model_dump(mode="json")
    if ending.fault:
        shown["fault"] = ending.fault
    return shown | {"ui_url": page}


def plan_lines(plan: dict[str, Any]) -> list[Line]:
    """A plan that was only made, with what it may cost: the answer of the query `plan`. Nothing where none was made."""
    steps = plan.get("plan")
    if steps is None:
        return []
    lines = [Line(f"Plan: {counted(len(steps), 'step')}, mode {plan.get('mode', '')}", Tone.STRONG)]
    for step in steps:
        after = ", ".join(str(number_) for number_ in step.get("depends_on") or ())
        lines.append(Line(f"{step['step']}. {step['agent_type']}: {step['description']}", indent=1))
        facts = [counted(step["items"], "item")] if step.get("items") else []
        facts += [f"after {after}"] if after else []
        facts += [f"about {number(t)} output tokens"] if (t := step.get("estimated_output_tokens")) else []
        lines += [Line(", ".join(facts), Tone.FAINT, indent=3)] if facts else []
    lines += _estimate(plan)
    return [*lines, *(Line(f"note: {note}", Tone.FAINT) for note in plan.get("notes") or ())]


def _estimate(plan: dict[str, Any]) -> list[Line]:
    from baton.estimates import Estimate

    if not plan.get("estimate"):
        return []
    return [Line(f"{Estimate.model_validate(plan['estimate']).told()}.")]


def _figures(items: ItemCounts, usage: Usage, agents: int, handoffs: int) -> list[Line]:
    lines = []
    if items.total:
        detail = f"{items.changed} changed, {items.unchanged} right as they were"
        left = "".join(
            f", {count} {word}"
            for count, word in ((items.skipped, "skipped"), (items.failed, "failed"), (items.open, "open"))
            if count
        )
        lines.append(_field("items", f"{items.done} of {items.total} done ({detail}{left})"))
    if not agents:
        return lines
    calls = f"{counted(agents, 'agent')}, {counted(handoffs, 'handoff')}, {counted(usage.model_calls, 'model call')}"
    cached = f" ({100 * usage.cache_read_tokens // (usage.total_input_tokens or 1)} % from cache)"
    tokens = f"{number(usage.output_tokens)} output, {number(usage.total_input_tokens)} input"
    unpriced = f" ({counted(usage.unpriced_calls, 'call')} without a known price)" if usage.unpriced_calls else ""
    return [
        *lines,
        _field("agents", calls),
        _field("tokens", tokens + (cached if usage.cache_read_tokens else "")),
        _field("cost", f"{usage.cost_usd:.2f} USD{unpriced}"),
    ]


def _gates(result: TaskResult) -> list[Line]:
    if not result.gates:
        return [_field("gates", "none was run")] if result.ref else []
    return [_field("gates", ", ".join(f"{name}: {word}" for name, word in result.gates.items()))]


def _branch(status: TaskStatus, ref: str | None) -> list[Line]:
    if not ref:
        return []
    repository, base = shlex.quote(status.repository), status.base_commit[:12]
    look_at = f"git -C {repository} diff {base}...{shlex.quote(ref)}" if base else f"git -C {repository} log -p {ref}"
    return [
        _field("branch", f"{ref}" + (f", made from {base}" if base else "")),
        _field("look at it", look_at),
        _field("take it", f"orchestrate apply {status.task_id} --repo {repository}"),
    ]


def _field(name: str, value: str) -> Line:
    return Line(f"{name:<12}{value}", indent=1)
