"""Whether agents chose alike: what they recorded, compared by subject, and what is done where they chose differently.

Only choices of different chains of agents are compared, the last one of each. Choices that exclude each other by their
meaning (snake_case and camelCase for functions) are certain; two different words for one subject may both be right, so
somebody has to judge them. What is certain is settled by the earlier step unless the integrator rules otherwise.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from baton.agent_types import GENERAL
from baton.knowledge import Entry, Knowledge
from baton.ledger import ItemRecord, ItemStatus
from baton.messages import StepResult
from baton.models import Stored
from baton.plan import Plan, PlanStep, execution_order
from baton.schedule import USELESS
from baton.states import StepStatusWord
from baton.tool_inputs import Ruling
from baton.topics import topic_choices

MOST_TOLD = 20
MOST_FILES = 100
SAID_CHARACTERS = 240
_CHAIN = re.compile(r"executor-(?P<label>(?P<step>\d+)(?:\.\d+)?)-")
_KEYED = re.compile(r"^(?P<subject>[^:`\"'.]{3,50}?)\s*:\s+(?P<choice>\S.*)$")
_FOR = re.compile(
    r"^(?:we )?(?:use|prefer|choose|chose|adopt|keep)d?\s+(?P<choice>.{2,60}?)\s+for\s+(?P<subject>.{3,50})$"
)
_VALUE = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"|\bv?\d+(?:\.\d+)*\b")
_WORD = re.compile(r"[a-z]{3,}")
_EDGES = "`\"'.,;: "


class Choice(Stored):
    """What a chain of agents chose: `text` is what it recorded, `choice` what is compared."""

    choice: str
    text: str
    step: int
    chain: str
    agent_id: str


class Contradiction(Stored):
    """Different choices for one subject, the earliest in plan order first."""

    subject: str
    choices: tuple[Choice, ...]
    certain: bool = False


class Agreement(Stored):
    """The same choice by several chains."""

    subject: str
    choice: str
    steps: tuple[int, ...]


class Comparison(Stored):
    """What comparing all choices found."""

    agreed: tuple[Agreement, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()


class Settlement(Stored):
    """What became of a contradiction. `by`: whose word it is, empty while nobody settled it. `files`: what the ruling
    names; `redo`: whether something is to be brought in line."""

    subject: str
    choices: tuple[Choice, ...] = ()
    choice: str = ""
    by: Literal["", "integrator", "earlier step", "no contradiction"] = ""
    reason: str = ""
    redo: bool = False
    files: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[Choice, ...]:
        """The choices that lost."""
        return tuple(choice for choice in self.choices if choice.choice != self.choice)


def compared(knowledge: Knowledge, plan: Plan, results: Mapping[int, StepResult]) -> Comparison:
    """Agreements and contradictions among what the agents of steps that came to something recorded."""
    position = {number: place for place, number in enumerate(execution_order(plan))}
    chosen: dict[str, dict[str, Choice]] = {}
    certain: set[str] = set()
    for entry in knowledge.entries:
        made = _CHAIN.match(entry.agent_id)
        if (
            made is None
            or entry.kind not in {"decision", "pattern"}
            or not _counts(int(made["step"]), position, results)
        ):
            continue
        for subject, choice, is_certain in _choices(entry):
            certain |= {subject} if is_certain else set()
            chosen.setdefault(subject, {})[made["label"]] = Choice(
                choice=choice,
                text=entry.text[:SAID_CHARACTERS],
                step=int(made["step"]),
                chain=made["label"],
                agent_id=entry.agent_id,
            )
    agreed, different = [], []
    for subject, by_chain in sorted(chosen.items()):
        choices = sorted(by_chain.values(), key=lambda one: (position[one.step], one.chain))
        if len({one.choice for one in choices}) > 1:
            different.append(Contradiction(subject=subject, choices=tuple(choices), certain=subject in certain))
        elif len(choices) > 1:
            steps = tuple(dict.fromkeys(one.step for one in choices))
            agreed.append(Agreement(subject=subject, choice=choices[0].choice, steps=steps))
    different.sort(key=lambda one: not one.certain)
    # What is certain is never left out.
    kept = max(MOST_TOLD, sum(one.certain for one in different))
    return Comparison(agreed=tuple(agreed[:MOST_TOLD]), contradictions=tuple(different[:kept]))


def settled(found: Sequence[Contradiction], rulings: Sequence[Ruling]) -> tuple[Settlement, ...]:
    """What becomes of each contradiction, and of those that only the integrator found."""
    ruled = {_normal(ruling.subject): ruling for ruling in rulings}
    known = {_normal(contradiction.subject) for contradiction in found}
    own = [ruling for subject, ruling in ruled.items() if subject not in known and ruling.contradicts]
    return (
        *(_settlement(contradiction, ruled.get(_normal(contradiction.subject))) for contradiction in found),
        *(
            Settlement(
                subject=ruling.subject,
                choice=ruling.choice,
                by="integrator",
                reason=ruling.reason,
                redo=ruling.redo and bool(ruling.files),
                files=tuple(ruling.files),
            )
            for ruling in own
        ),
    )


def rulings_in(submitted: Mapping[str, Any]) -> tuple[Ruling, ...]:
    """The rulings that an integrator submitted."""
    return tuple(Ruling.model_validate(ruling) for ruling in submitted.get("rulings", ()))


def redo_steps(
    plan: Plan,
    results: Mapping[int, StepResult],
    records: Mapping[int, Sequence[ItemRecord]],
    settlements: Sequence[Settlement],
) -> tuple[PlanStep, ...]:
    """Steps that bring what chose otherwise in line, with at most `MOST_FILES` files each; none where that was done
    before, and none without files."""
    if any(step.settles for step in plan.plan):
        return ()
    groups: list[tuple[list[Settlement], dict[str, None]]] = []
    for settlement in settlements:
        files = dict.fromkeys(_affected(settlement, results, records)) if settlement.redo else {}
        if not files:
            continue
        touching = [group for group in groups if group[1].keys() & files.keys()]
        whole = ([one for group in touching for one in group[0]] + [settlement], files)
        for group in touching:
            groups.remove(group)
            whole[1].update(group[1])
        groups.append(whole)
    first = 1 + max((step.step for step in plan.plan), default=0)
    number = 1 + max((step.repair_round for step in plan.plan), default=0)
    parts = [
        (told, list(files)[start : start + MOST_FILES])
        for told, files in groups
        for start in range(0, len(files), MOST_FILES)
    ]
    return tuple(_step(plan, *part, first + place, number) for place, part in enumerate(parts))


def redone_in(plan: Plan | None, results: Mapping[int, StepResult], subject: str) -> tuple[tuple[int, ...], bool]:
    """The steps that were to bring a subject in line, and whether all of them did."""
    steps = tuple(step.step for step in plan.plan if subject in step.settles) if plan is not None else ()
    done = [number in results and results[number].status is StepStatusWord.OK for number in steps]
    return steps, bool(steps) and all(done)


def shown(found: Comparison) -> dict[str, Any]:
    """What the integrator gets to see of a comparison."""
    return {
        "contradictions": [
            {
                "subject": one.subject,
                "certain": one.certain,
                "choices": [
                    {"step": choice.step, "choice": choice.choice, "recorded": choice.text} for choice in one.choices
                ],
            }
            for one in found.contradictions
        ],
        "agreed": [one.model_dump(mode="json") for one in found.agreed],
    }


def _counts(step: int, position: Mapping[int, int], results: Mapping[int, StepResult]) -> bool:
    return step in position and step in results and results[step].status not in USELESS


def _choices(entry: Entry) -> Iterator[tuple[str, str, bool]]:
    """Subject, choice and whether other choices exclude it, for everything that the entry settles."""
    found = tuple(topic_choices(entry.text))
    yield from ((subject, choice, True) for subject, choice in found)
    if found:
        return
    text = " ".join(entry.text.split()).rstrip(".")
    keyed = _KEYED.match(text) or _FOR.match(text.lower())
    if keyed is not None:
        yield _normal(keyed["subject"]), _normal(keyed["choice"]), False
        return
    if entry.kind != "decision":
        return
    *_, last = [None, *_VALUE.finditer(text)]
    if last is not None:
        subject = _normal(f"{text[: last.start()]} … {text[last.end() :]}")
        if len(_WORD.findall(subject)) > 1:
            yield subject, _normal(last[0]), False


def _normal(text: str) -> str:
    """Text without case, spaces, articles and quotes at its edges."""
    words = [word for word in text.casefold().split() if word not in {"the", "a", "an", "all", "our"}]
    return " ".join(words).strip(_EDGES)


def _settlement(found: Contradiction, ruling: Ruling | None) -> Settlement:
    plain = Settlement(subject=found.subject, choices=found.choices)
    earliest = found.choices[0].choice
    if ruling is None:
        if not found.certain:
            return plain
        return plain.model_copy(update={"choice": earliest, "by": "earlier step", "redo": True})
    if not ruling.contradicts:
        return plain.model_copy(update={"by": "no contradiction", "reason": ruling.reason})
    named = {_normal(one.choice): one.choice for one in found.choices}
    choice = named.get(_normal(ruling.choice), ruling.choice) or earliest
    return plain.model_copy(
        update={
            "choice": choice,
            "by": "integrator",
            "reason": ruling.reason,
            "redo": ruling.redo,
            "files": tuple(ruling.files),
        }
    )


def _affected(
    settlement: Settlement, results: Mapping[int, StepResult], records: Mapping[int, Sequence[ItemRecord]]
) -> Iterable[str]:
    """Files that the steps changed which chose otherwise: those of the ruling, else of the chain, else of the step."""
    everything = {path for result in results.values() for path in result.files_changed}
    if settlement.files:
        return sorted(everything & set(settlement.files))
    found: dict[str, None] = {}
    for choice in settlement.others:
        changed = results[choice.step].files_changed if choice.step in results else ()
        prefix = f"executor-{choice.chain}-"
        items = {
            record.item
            for record in records.get(choice.step, ())
            if record.status is ItemStatus.CHANGED and (record.agent_id or "").startswith(prefix)
        }
        own = [path for path in changed if path in items] if "." in choice.chain else []
        found |= dict.fromkeys(own or changed)
    return list(found)


def _step(
    plan: Plan, settlements: Sequence[Settlement], files: Sequence[str], number: int, round_number: int
) -> PlanStep:
    losers = list(dict.fromkeys(choice.step for one in settlements for choice in one.others))
    came = f"step {losers[0]}" if len(losers) == 1 else "some steps"
    types = {plan.step(step).agent_type for step in losers if plan.step(step).run is None}
    lines = [f"Bring the work of {came} in line with what was decided", *(_told(one) for one in settlements)]
    lines.append("Change only what follows the other choice. Where nothing does, change nothing and say so.")
    return PlanStep(
        step=number,
        agent_type=types.pop() if len(types) == 1 else GENERAL,
        description="\n".join(lines),
        success_criteria=tuple(f"{one.subject}: {one.choice} everywhere in these files" for one in settlements),
        owns=tuple(files),
        settles=tuple(one.subject for one in settlements),
        repair_round=round_number,
    )


def _told(settlement: Settlement) -> str:
    others = ", ".join(dict.fromkeys(f"“{choice.choice}”" for choice in settlement.others))
    against = f" instead of {others}" if others else ""
    why = f" ({settlement.reason})" if settlement.reason else ""
    return f"- {settlement.subject}: “{settlement.choice}”{against}{why}"
