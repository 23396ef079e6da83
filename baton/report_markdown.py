"""`report.md`: the report as people read it."""

import re
from collections.abc import Mapping, Sequence

from baton.consistency_report import agreement_line, settlement_line
from baton.durations import format_duration
from baton.findings import GateVerdict, VerdictStatus
from baton.ledger import ItemCounts
from baton.performance import NOISE_NOTE, SizeChange, Timing
from baton.report_facts import ReportFacts, issues, undone_notes
from baton.states import TaskState
from baton.wording import number

STATE_WORDS: Mapping[TaskState, str] = {
    TaskState.DONE: "Done",
    TaskState.PARTIAL: "Partly done",
    TaskState.FAILED: "Failed",
    TaskState.CANCELLED: "Cancelled",
    TaskState.RUNNING: "Running",
    TaskState.WAITING: "Waiting for a person",
}

SENTENCES_SHOWN = 5
NOTHING_TO_COMPARE = "No two agents recorded a choice for one subject, and no integrator looked at the result."
NOT_MEASURED = "Nothing was measured: no gate builds or tests, and the setting `sizes` names nothing."


def markdown(facts: ReportFacts) -> str:
    """`report.md`."""
    status = facts.status
    sections = [
        f"# {STATE_WORDS[status.state]}: {status.task}",
        f"{status.summary}.",
        _synthesis_section(facts),
        _result_section(facts),
        _consistency_section(facts),
        _gates_section(facts),
        _performance_section(facts),
        _summary_section(facts),
        _issues_section(facts),
        _steps_section(facts),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _synthesis_section(facts: ReportFacts) -> str:
    told = facts.synthesis
    parts = [told.text] if told.text else []
    if told.left_out:
        parts.append("Left out of the summary, because the facts say otherwise:")
        parts.append("\n".join(f"- ~~{_cell(one.sentence)}~~ ({one.why})" for one in told.left_out[:SENTENCES_SHOWN]))
    elif told.why:
        parts.append(f"There is no summary by a model: {told.why}.")
    return "\n\n".join(parts)


def _result_section(facts: ReportFacts) -> str:
    status = facts.status
    if status.ref:
        return (
            f"The result is the branch `{status.ref}` ({facts.head[:12]}), made from `{status.base_commit[:12]}`. "
            f"See it with `git diff {status.base_commit[:12]}...{status.ref}`, take it with `git merge {status.ref}`."
        )
    if facts.head and facts.head != status.base_commit:
        return f"The result is in the private repository: `git fetch {facts.private_repository} result`."
    return "Nothing was changed."


def _steps_section(facts: ReportFacts) -> str:
    if not facts.results:
        return ""
    rows = [
        f"| {r.step} | {r.agent_type} | {r.status} | {_done(r.items)} "
        f"| {r.agents} | {r.handoffs} | {len(r.files_changed)} |"
        for r in facts.results
    ]
    lines = [
        "## Steps",
        "| step | agent | status | items done | agents | handoffs | files changed |",
        "|---|---|---|---|---|---|---|",
        *rows,
    ]
    for result in facts.results:
        notes = [
            *(_bullet(f"in the way: {blocker}") for blocker in result.blockers),
            *(_bullet(note) for note in undone_notes(facts.undone.get(result.step, ()), result.items)),
            *(_bullet(f"not verified: {gap}") for gap in result.verification_gaps),
        ]
        if result.summary or notes:
            subject = (result.description.splitlines() or [""])[0].rstrip(".")
            lines += ["", f"**{result.step}. {subject}.** {result.summary}".strip(), *([""] if notes else []), *notes]
    return _joined(lines)


def _done(items: ItemCounts) -> str:
    return f"{items.done}/{items.total}" if items.total else "–"


def _gates_section(facts: ReportFacts) -> str:
    if not facts.verdicts:
        return "## Quality Gates\n\nNo gate was run."
    signs = {
        VerdictStatus.PASSED: "✓",
        VerdictStatus.FIXED: "✓",
        VerdictStatus.KNOWN_FAILURE: "~",
        VerdictStatus.FLAKY: "~",
    }
    rows = [
        f"| {signs.get(v.status, '✗')} {v.name} | {str(v.status).replace('_', ' ')} | {_tests(v)} "
        f"| {len(v.new_failures)} | {v.known} | {len(v.flaky)} | {_cell(v.detail)} |"
        for v in facts.verdicts
    ]
    head = [
        "| gate | result against the base commit | tests | new | known | flaky | detail |",
        "|---|---|---|---|---|---|---|",
    ]
    return _joined(["## Quality Gates", *head, *rows])


def _tests(verdict: GateVerdict) -> str:
    """How many tests there are, before and now, and how many more are skipped."""
    if verdict.tests is None:
        return ""
    before = f"{verdict.tests_before} → " if verdict.tests_before is not None else ""
    more = (verdict.skipped or 0) - (verdict.skipped_before or 0)
    return f"{before}{verdict.tests}" + (f", {more} more skipped" if more > 0 else "")


def _performance_section(facts: ReportFacts) -> str:
    lines = []
    if facts.timings:
        lines += ["| time of | base commit | result | difference |", "|---|---|---|---|"]
        lines += [
            f"| {t.gate} | {_seconds(t.before)} | {_seconds(t.now)} | {_difference(t, 'slower', 'faster')} |"
            for t in facts.timings
        ]
        lines += ["", NOISE_NOTE]
    if facts.size_changes:
        lines += ["", "| size of | base commit | result | difference |", "|---|---|---|---|"]
        lines += [
            f"| `{_cell(s.pattern)}` | {_bytes(s.before)} | {_bytes(s.now)} | {_difference(s, 'larger', 'smaller')} |"
            for s in facts.size_changes
        ]
    if not lines:
        return f"## Performance Validation\n\n{NOT_MEASURED}" if facts.results else ""
    return _joined(["## Performance Validation", *lines])


def _difference(row: Timing | SizeChange, more: str, less: str) -> str:
    if row.word == "not compared":
        return row.why
    word = {"same": "about the same", "more": more, "less": less}[row.word]
    return f"{word} (× {row.ratio:.2f})" if row.ratio is not None else word


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f} s"


def _bytes(size: int | None) -> str:
    return "–" if size is None else f"{number(size)} bytes"


def _cell(text: str) -> str:
    """Text that stays in its cell of a table."""
    return " ".join(text.split()).replace("|", "/")


def consistency_checks(facts: ReportFacts) -> list[str]:
    """Where agents chose alike, what became of the places where they did not, and what the integrator saw."""
    return [
        *(settlement_line(one, facts.plan, facts.results) for one in facts.settlements),
        *(agreement_line(one) for one in facts.agreed),
        *facts.integration.get("consistency", ()),
    ]


def _consistency_section(facts: ReportFacts) -> str:
    checks = [*consistency_checks(facts), *(f"✗ {c}" for c in facts.integration.get("conflicts", ()))]
    summary = facts.integration.get("summary", "")
    if not checks and not summary:
        return f"## Consistency Checks\n\n{NOTHING_TO_COMPARE}" if facts.results else ""
    return _joined(["## Consistency Checks", *([summary, ""] if summary else []), *map(_bullet, checks)])


def _summary_section(facts: ReportFacts) -> str:
    status, items, usage, duration = facts.status, facts.items, facts.status.usage, facts.duration
    right = f"{items.changed} changed, {items.unchanged} right as they were"
    left = f"{items.skipped} skipped, {items.failed} failed, {items.open} open"
    read = number(usage.total_input_tokens)
    cached = _share(usage.cache_read_tokens, usage.total_input_tokens)
    unpriced = f" ({usage.unpriced_calls} calls have no price)" if usage.unpriced_calls else ""
    lines = [
        "## Summary",
        f"- items: {items.done} of {items.total} done ({right}), {left}",
        f"- agents: {status.agents}, handoffs: {status.handoffs}, model calls: {usage.model_calls}",
        f"- tokens: {number(usage.output_tokens)} output, {read} input ({cached} from cache)",
        f"- cost: {usage.cost_usd:.2f} USD{unpriced}",
    ]
    waited = f" ({format_duration(facts.waited)} of it waiting for a person)" if facts.waited else ""
    lines += [f"- duration: {format_duration(duration)}{waited}"] if duration else []
    lines += ["- how it went: [timeline.html](timeline.html)"] if status.artifacts and facts.persisted else []
    return _joined(lines)


def _issues_section(facts: ReportFacts) -> str:
    found = issues(facts)
    if not found:
        return "## Issues Requiring Review\n\nNone."
    lines = ["## Issues Requiring Review"]
    for issue in found:
        what, more = _first_line(issue["issue"])
        shown, rest = _first_line(issue["evidence"])
        where = f" ({', '.join(issue['files'])})" if issue["files"] else ""
        evidence = f" ({shown.rstrip('.')})" if shown else ""
        line = f"**{issue['severity']}** {what.rstrip('.')}{where}{evidence} → {_cell(issue['suggested_action'])}"
        lines.append(_bullet("\n".join(filter(None, (line, more, rest)))))
    return _joined(lines)


def _bullet(text: str) -> str:
    """A point of a list; of a text of several lines, such as what a command printed, the others stand in a block."""
    line, more = _first_line(text)
    if not more:
        return f"- {line}"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", more)), default=0))
    block = [fence, *more.splitlines(), fence]
    return "\n".join([f"- {line}", "", *(f"  {row}".rstrip() for row in block), ""])


def _first_line(text: str) -> tuple[str, str]:
    """The first line, and the others."""
    line, _, more = text.strip().partition("\n")
    return line.rstrip(), more.strip("\n").rstrip()


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _joined(lines: Sequence[str]) -> str:
    return lines[0] + "\n\n" + "\n".join(lines[1:])
