"""How a task is to be done: by one agent, by steps in a row, or side by side; decided by facts where they suffice.

A small model is asked for the rest. Where it is not sure, a person chooses, and where nobody is there, steps in a row:
the way that goes wrong least.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Collection
from typing import Any, Literal

from pydantic import Field

from baton.models import Stored
from baton.path_patterns import matches
from baton.pricing import Usage

SURE = 0.7
"""Below this confidence nobody decides alone."""
FEW_FILES = 3
"""So many files are always one agent's work."""

Mode = Literal["single", "sequential", "parallel"]
MODES: tuple[Mode, ...] = ("single", "sequential", "parallel")

_WIDE = re.compile(r"\b(all|every|each|whole|entire|everywhere|across|throughout|codebase|repository)\b", re.IGNORECASE)
_WORD = re.compile(r"[\w@.+*/{},?\[\]-]+")
_LANGUAGES_TOLD = 8
_NAMES_TOLD = 20


class TaskFacts(Stored):
    """What is known of a task before anybody thinks: files of the repository, those that its text names, those that its
    globs match, suffixes by number of files, and whether its words reach further than any of that."""

    files: int
    named: tuple[str, ...] = ()
    globbed: int = 0
    suffixes: dict[str, int] = Field(default_factory=dict)
    wide: bool = False


class Route(Stored):
    """The way of a task, how sure that is (0 to 1), and who says so. `question`, `options`: for a person to answer."""

    mode: Mode
    confidence: float = Field(ge=0, le=1)
    reason: str = ""
    question: str = ""
    options: tuple[str, ...] = ()
    by: Literal["facts", "model", "person", "default"] = "model"

    @property
    def is_sure(self) -> bool:
        """Whether nobody needs to be asked."""
        return self.confidence >= SURE


class Routed(Stored):
    """Result of the activity `route`: the route, where there is one, and what it cost."""

    route: Route | None = None
    usage: Usage = Usage()


def task_facts(task: str, files: Collection[str]) -> TaskFacts:
    """The facts of a task's text and the files of its base commit."""
    known = files if isinstance(files, set | frozenset) else frozenset(files)
    words = {word.strip(".,") for word in _WORD.findall(task)}
    by_name: dict[str, list[str]] = {}
    for path in known:
        by_name.setdefault(posixpath.basename(path), []).append(path)
    named = {word for word in words if word in known}
    named |= {by_name[word][0] for word in words if "." in word and len(by_name.get(word, ())) == 1}
    globs = [word for word in words if "*" in word and len(word) > 1]
    suffixes = Counter(posixpath.splitext(path)[1] or "(none)" for path in known)
    return TaskFacts(
        files=len(known),
        named=tuple(sorted(named)),
        globbed=sum(any(matches(glob, path) for glob in globs) for path in known) if globs else 0,
        suffixes=dict(suffixes.most_common(_LANGUAGES_TOLD)),
        wide=_WIDE.search(task) is not None,
    )


def decided_by_person(parallel: bool | None) -> Route | None:
    """The route where whoever started the task asked for steps side by side, or in a row."""
    if parallel is None:
        return None
    return Route(
        mode="parallel" if parallel else "sequential", confidence=1, reason="as was asked at the start", by="person"
    )


def decided_by_facts(facts: TaskFacts) -> Route | None:
    """The route that facts alone decide, if they do."""
    if facts.files <= FEW_FILES:
        return Route(mode="single", confidence=1, reason=f"the repository has {facts.files} files", by="facts")
    if facts.named and not facts.globbed and not facts.wide and len(facts.named) <= FEW_FILES:
        reason = f"the task names {', '.join(facts.named)} and nothing beyond"
        return Route(mode="single", confidence=0.9, reason=reason, by="facts")
    return None


def shown_facts(facts: TaskFacts) -> dict[str, Any]:
    """The facts as the small model sees them."""
    return facts.model_dump(mode="json") | {"named": list(facts.named[:_NAMES_TOLD])}


def choices(route: Route) -> tuple[str, ...]:
    """What a person may choose when the route is not sure: the model's options, else the modes."""
    return tuple(dict.fromkeys(option for option in route.options if option.strip())) or MODES


def chosen(route: Route, choice: str) -> tuple[Route, str]:
    """The route after a person's choice, and what the planner is to know of it."""
    mode = next((mode for mode in MODES if mode == choice), None)
    told = "" if mode else f"A person was asked: {route.question or 'how is this to be done?'} The answer: {choice}"
    return route.model_copy(update={"mode": mode or route.mode, "confidence": 1.0, "by": "person"}), told


def unattended(route: Route) -> Route:
    """The route where it is not sure and nobody can be asked."""
    return route.model_copy(update={"mode": "sequential", "by": "default"})


def planner_settings(route: Route) -> dict[str, str]:
    """What the planner's settings say of the route."""
    if route.mode == "single":
        return {"mode": "single", "mode_reason": route.reason}
    return {"mode": "orchestrated", "strategy": route.mode, "mode_reason": route.reason}
