"""What the report says of consistency: where agents agree, what was settled and how, and what is left to a person."""

from collections.abc import Iterator, Sequence

from baton.consistency import Agreement, Settlement, redone_in
from baton.messages import StepResult
from baton.plan import Plan

Row = tuple[str, str, str, Sequence[str], str]
"""Severity, issue, suggested action, files, evidence."""


def agreement_line(agreed: Agreement) -> str:
    """`✓ quotes: single (steps 1, 2)`."""
    return f"✓ {agreed.subject}: {agreed.choice} ({_steps(agreed.steps)})"


def settlement_line(settlement: Settlement, plan: Plan | None, results: Sequence[StepResult]) -> str:
    """The choices, whose word holds, and what came of it."""
    text = f"{_told(settlement)}. {_outcome(settlement, plan, results)}."
    sign = "✗" if _is_open(settlement, plan, results) else "✓"
    return f"{sign} {text}" + (f" Reason: {settlement.reason.rstrip('.')}." if settlement.reason else "")


def open_settlements(
    settlements: Sequence[Settlement], plan: Plan | None, results: Sequence[StepResult]
) -> Iterator[Row]:
    """What a person has to decide or to finish."""
    for one in settlements:
        if not _is_open(one, plan, results):
            continue
        evidence = "; ".join(f"step {choice.step}: {choice.text}" for choice in one.choices[:5])
        if not one.by:
            yield (
                "medium",
                f"steps chose differently: {_told(one)}",
                "decide which holds, or that both do",
                one.files,
                evidence,
            )
            continue
        losing = {choice.step for choice in one.others}
        files = one.files or tuple(path for result in results if result.step in losing for path in result.files_changed)
        issue = f"not everything is in line with a choice that holds: {_told(one)}"
        yield "medium", issue, f"bring it in line with “{one.choice}”", files[:20], evidence


def _is_open(settlement: Settlement, plan: Plan | None, results: Sequence[StepResult]) -> bool:
    if not settlement.by:
        return True
    _, is_done = redone_in(plan, {result.step: result for result in results}, settlement.subject)
    return settlement.redo and not is_done


def _told(settlement: Settlement) -> str:
    by_choice: dict[str, list[int]] = {}
    for choice in settlement.choices:
        by_choice.setdefault(choice.choice, []).append(choice.step)
    told = " against ".join(f"“{choice}” ({_steps(tuple(dict.fromkeys(s)))})" for choice, s in by_choice.items())
    return f"{settlement.subject}: {told}" if told else f"{settlement.subject}: “{settlement.choice}”"


def _outcome(settlement: Settlement, plan: Plan | None, results: Sequence[StepResult]) -> str:
    if not settlement.by:
        return "Nobody settled it"
    if settlement.by == "no contradiction":
        return "The integrator: no contradiction"
    word = "the integrator" if settlement.by == "integrator" else "the earlier step"
    steps, is_done = redone_in(plan, {result.step: result for result in results}, settlement.subject)
    holds = f"“{settlement.choice}” holds by the word of {word}"
    if not settlement.redo:
        return holds
    if not steps:
        return f"{holds}; nothing was brought in line"
    return f"{holds}; {_steps(steps)} {'brought the rest in line' if is_done else 'did not bring everything in line'}"


def _steps(numbers: tuple[int, ...]) -> str:
    return f"step{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
