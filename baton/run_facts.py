"""What the artifacts of a task say of its run: the facts that a timeline and a diagnosis are made of.

Files that are missing leave their facts empty; files that cannot be read are named in `unreadable`. A task that still
runs, or that was killed, has fewer files: what is there counts.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from baton import trace
from baton.findings import GateResult, GateVerdict
from baton.manifest import Manifest
from baton.models import Stored
from baton.plan import PlanStep
from baton.status import TaskStatus
from baton.trace import Trace

FILES = (trace.NAME, "state.json", "plan.json", "integration-report.json", "baseline.json", "ledger.json")
HANDOFFS = "agent-*-handoff.json"
"""The further files that are wanted, as a pattern."""

T = TypeVar("T")


class RunFacts(Stored):
    """The facts of one run. `seen_at`: when the status was asked of the task, which runs still."""

    task_id: str
    status: TaskStatus = TaskStatus()
    steps: tuple[PlanStep, ...] = ()
    verdicts: tuple[GateVerdict, ...] = ()
    baseline: tuple[GateResult, ...] = ()
    handoffs: tuple[Manifest, ...] = ()
    trace: Trace = Trace()
    reported: bool = False
    unreadable: tuple[str, ...] = ()
    seen_at: datetime | None = None

    @property
    def broken_off(self) -> str:
        """How the task ended without a report (`terminated` …); empty where it has one, or still runs."""
        closed, started = self.trace.of("closed"), self.trace.of("started")
        if self.reported or not closed or (started and started[-1].began > closed[-1].at):
            return ""
        return closed[-1].outcome


def run_facts(task_id: str, files: Mapping[str, str]) -> RunFacts:
    """The facts in files given by name with their text."""
    broken: list[str] = []

    def taken(name: str, read: Callable[[Any], T], otherwise: T) -> T:
        if name not in files:
            return otherwise
        try:
            return read(json.loads(files[name]))
        except (ValueError, ValidationError, KeyError, TypeError, AttributeError, RecursionError):
            broken.append(name)
            return otherwise

    status = taken("state.json", lambda found: TaskStatus.model_validate(found["status"]), TaskStatus(task_id=task_id))
    none: tuple[Any, ...] = ()
    manifests = [
        taken(name, Manifest.model_validate, None)
        for name in sorted(files, key=lambda name: (len(name), name))
        if name.endswith("-handoff.json")
    ]
    return RunFacts(
        task_id=task_id,
        status=status,
        steps=taken("plan.json", lambda found: tuple(map(PlanStep.model_validate, found["plan"])), none),
        verdicts=taken(
            "integration-report.json",
            lambda found: tuple(map(GateVerdict.model_validate, found["quality_gates"])),
            none,
        ),
        baseline=taken("baseline.json", lambda found: tuple(map(GateResult.model_validate, found)), none),
        handoffs=tuple(manifest for manifest in manifests if manifest is not None),
        trace=trace.parse(files.get(trace.NAME, "")),
        reported="integration-report.json" in files,
        unreadable=tuple(broken),
    )
