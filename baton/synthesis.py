"""The final summary in words: what an agent in a fresh context reads of a task, and which of its words may stand.

Facts win. A sentence that says more than the results do (a number that nobody counted, "all done" of a task that is
not, "the tests pass" of tests that do not) is left out, and the report says which one and why.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from baton.findings import GateVerdict, VerdictStatus
from baton.ledger import ItemCounts
from baton.messages import StepResult
from baton.models import Stored
from baton.pricing import Usage
from baton.roles import Role
from baton.states import StepStatusWord, TaskState

SUMMARIZER = "summarizer"
"""The agent's id."""
ATTEMPTS = 4
"""After so many without an answer the report does without."""
FEWEST_RESULTS = 2
"""What one step says of itself needs no summary."""
RESULTS_SHOWN = 40
ROWS_SHOWN = 12
TASK_CHARACTERS = 3_000
TEXT_CHARACTERS = 600
ENTRY_CHARACTERS = 240
SUMMARY_CHARACTERS = 3_000

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`\"'(*-])")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_COUNTED = re.compile(r"(?P<number>\d+(?:,\d{3})*)\s+(?:\w+\s+)?(?P<noun>item|step|file)s?\b", re.IGNORECASE)
_LIMITED = re.compile(
    r"\b(not|no|nor|never|none|without|except|but|only|almost|nearly|partly|partially|fail\w*|remain\w*|open|missing"
    r"|yet|unless|incomplete|should|if|before|blocked|skipped)\b|n't\b",
    re.IGNORECASE,
)
_COMPLETE = re.compile(
    r"\b(all|every|everything|each|whole|entire|fully|completely|successfully)\b"
    r".*\b(done|complete\w*|finish\w*|convert\w*|migrat\w*|chang\w*|moderni\w*|updat\w*|succe\w*|work\w*|implement\w*)\b"
    r"|\b(task|work|migration|conversion|job)\s+(is|was|has been)\s+(now\s+)?(done|complete\w*|finished|successful)\b"
    r"|\b(fully|completely|successfully)\b|\b100\s?%|\bready (to|for)\b|\bnothing (is left|remains)\b",
    re.IGNORECASE,
)
_PASSES = re.compile(r"\b(pass(es|ed|ing)?|green|succeed(s|ed)?)\b", re.IGNORECASE)
_CHECKS = re.compile(r"\b(tests?|suite|gates?|checks?|builds?|lint\w*|types?)\b", re.IGNORECASE)
_STEP = re.compile(r"\bstep (\d+)\b", re.IGNORECASE)
_GOOD = frozenset((VerdictStatus.PASSED, VerdictStatus.FIXED))


class SynthesisFacts(Stored):
    """What a summary is held against."""

    task_id: str
    task: str
    state: TaskState
    results: tuple[StepResult, ...] = ()
    verdicts: tuple[GateVerdict, ...] = ()

    @property
    def items(self) -> ItemCounts:
        """Items of all steps."""
        return sum((result.items for result in self.results), ItemCounts())


class LeftOut(Stored):
    """A sentence of the summary that does not stand, and why."""

    sentence: str
    why: str


class Synthesis(Stored):
    """The summary as the report has it; empty where there is none. `why`: why there is none."""

    text: str = ""
    left_out: tuple[LeftOut, ...] = ()
    model: str = ""
    usage: Usage = Usage()
    why: str = ""


def is_wanted(results: Sequence[StepResult]) -> bool:
    """Whether there is something that one reads better in one piece."""
    return sum(result.status is not StepStatusWord.NOT_ATTEMPTED for result in results) >= FEWEST_RESULTS


def assignment(facts: SynthesisFacts) -> dict[str, Any]:
    """The summarizer's assignment: the state and the content of the result files, of bounded size."""
    shown = sorted(facts.results, key=lambda result: result.status is StepStatusWord.OK)[:RESULTS_SHOWN]
    return {
        "role": Role.SUMMARIZER,
        "task_id": facts.task_id,
        "agent_id": SUMMARIZER,
        "task": facts.task[:TASK_CHARACTERS],
        "facts": {
            "state": facts.state,
            "items": facts.items.model_dump(mode="json"),
            "steps": dict(Counter(str(result.status) for result in facts.results)),
            "gates": [{"name": v.name, "status": v.status, "blocks": v.blocks} for v in facts.verdicts],
        },
        "results": [_row(result) for result in sorted(shown, key=lambda result: result.step)],
        "results_left_out": len(facts.results) - len(shown),
    }


def checked(text: str, facts: SynthesisFacts) -> Synthesis:
    """The sentences of a model's summary that agree with the facts, and those that do not."""
    told = json.dumps(assignment(facts), ensure_ascii=False, default=str)
    numbers = {_plain(number) for number in _NUMBER.findall(told)}
    paragraphs, left_out = [], []
    for paragraph in text[: 2 * SUMMARY_CHARACTERS].splitlines():
        kept = []
        for sentence in _SENTENCE_END.split(paragraph.strip().lstrip("#>| ")):
            why = _contradiction(sentence, facts, numbers) if sentence else None
            if why is not None:
                left_out.append(LeftOut(sentence=sentence[:ENTRY_CHARACTERS], why=why))
            elif sentence:
                kept.append(sentence)
        if kept:
            paragraphs.append(" ".join(kept))
    return Synthesis(text=_shortened("\n\n".join(paragraphs)), left_out=tuple(left_out))


def _row(result: StepResult) -> dict[str, Any]:
    """A result file without what only programs want, long texts and lists cut with their number."""
    return {
        "step": result.step,
        "agent_type": result.agent_type[:ENTRY_CHARACTERS],
        "description": result.description[:ENTRY_CHARACTERS],
        "status": result.status,
        "summary": result.summary[:TEXT_CHARACTERS],
        "items": result.items.model_dump(mode="json"),
        "findings": _cut([_finding(finding) for finding in result.findings]),
        "files_changed": _cut(result.files_changed),
        "files_changed_count": len(result.files_changed),
        "blockers": _cut(result.blockers),
        "verification_gaps": _cut(result.verification_gaps),
    }


def _finding(finding: Mapping[str, Any]) -> str:
    return f"{finding.get('severity', 'medium')}: {finding.get('finding', '')}"


def _cut(entries: Sequence[str]) -> list[str]:
    shown = [entry[:ENTRY_CHARACTERS] for entry in entries[:ROWS_SHOWN]]
    return shown if len(entries) <= ROWS_SHOWN else [*shown, f"and {len(entries) - ROWS_SHOWN} more"]


def _contradiction(sentence: str, facts: SynthesisFacts, numbers: set[str]) -> str | None:
    """Why a sentence cannot stand; None when it can."""
    unknown = [number for number in _NUMBER.findall(sentence) if _plain(number) not in numbers]
    if unknown:
        return f"no result names the number {unknown[0]}"
    counts = _counts(facts)
    for match in _COUNTED.finditer(sentence):
        if int(_plain(match["number"])) not in counts[match["noun"].lower()]:
            return f"the results count no {match['number']} {match['noun'].lower()}s"
    if _LIMITED.search(sentence):
        return None
    if _CHECKS.search(sentence) and _PASSES.search(sentence) and not _pass(sentence, facts.verdicts):
        return "the gates do not say so"
    if facts.state is not TaskState.DONE and _COMPLETE.search(sentence) and not _of_good_steps(sentence, facts):
        return f"the task is {facts.state}"
    return None


def _pass(sentence: str, verdicts: Sequence[GateVerdict]) -> bool:
    """Whether the gates that the sentence names passed; all of them where it names none."""
    named = [v for v in verdicts if re.search(rf"\b{re.escape(v.name)}\b", sentence, re.IGNORECASE)]
    meant = named if named and not re.search(r"\b(all|every)\b", sentence, re.IGNORECASE) else verdicts
    return bool(meant) and all(verdict.status in _GOOD for verdict in meant)


def _of_good_steps(sentence: str, facts: SynthesisFacts) -> bool:
    """Whether the sentence speaks of steps only, and those are ok."""
    named = {int(number) for number in _STEP.findall(sentence)}
    good = {result.step for result in facts.results if result.status is StepStatusWord.OK}
    return bool(named) and named <= good


def _counts(facts: SynthesisFacts) -> dict[str, set[int]]:
    """The numbers that may stand before a word: of the whole task and of each step."""
    parts = [facts.items, *(result.items for result in facts.results)]
    items = {number for part in parts for number in part.model_dump().values()} | {part.done for part in parts}
    changed = {path for result in facts.results for path in result.files_changed}
    by_status = Counter(result.status for result in facts.results)
    steps = {len(facts.results), *by_status.values(), *(result.step for result in facts.results)}
    files = items | {len(changed), *(len(result.files_changed) for result in facts.results)}
    return {"item": items, "step": steps, "file": files}


def _plain(number: str) -> str:
    """`1,234` as `1234`; `3.10` stays as it is."""
    return re.sub(r",(?=\d{3}\b)", "", number)


def _shortened(text: str) -> str:
    if len(text) <= SUMMARY_CHARACTERS:
        return text
    cut = text[:SUMMARY_CHARACTERS]
    return cut[: cut.rfind(".") + 1] or f"{cut}…"
