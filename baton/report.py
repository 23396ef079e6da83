"""The report and the other files for people, all from one set of facts."""

from collections.abc import Mapping, Sequence
from typing import Any

from baton.findings import VerdictStatus, ready
from baton.ledger import ItemRecord
from baton.messages import Artifact, StepResult
from baton.performance import NOISE_NOTE
from baton.plan import Plan, PlanStep
from baton.progress import Progress
from baton.report_facts import ReportFacts, issues
from baton.report_markdown import consistency_checks, markdown
from baton.states import StepStatusWord, TaskState
from baton.status import TaskResult
from baton.step_outputs import expected, output_of
from baton.wording import counted


def summary_line(facts: ReportFacts) -> str:
    """The outcome in one line."""
    status, items = facts.status, facts.items
    if facts.plan_only:
        return f"planned {counted(len(status.steps), 'step')}, nothing was run"
    if not status.steps and status.state is TaskState.DONE:
        return "the planner found nothing to do"
    parts = [f"{items.done} of {items.total} items done"] if items.total else [counted(len(facts.results), "step")]
    if items.changed or items.unchanged:
        parts.append(f"{items.changed} changed, {items.unchanged} right as they were")
    if items.skipped:
        parts.append(f"{items.skipped} skipped")
    if not ready(facts.verdicts):
        parts.append("the result is not ready: a gate blocks it")
    silent = [verdict.name for verdict in facts.verdicts if verdict.status is VerdictStatus.INCONCLUSIVE]
    if silent and ready(facts.verdicts):
        parts.append(f"gates that could not run: {', '.join(silent)}")
    return "; ".join(parts)


def task_result(facts: ReportFacts) -> TaskResult:
    """The workflow's result."""
    status = facts.status
    return TaskResult(
        task_id=status.task_id,
        state=status.state,
        summary=status.summary,
        ref=status.ref,
        base_commit=status.base_commit,
        commit=facts.head,
        artifacts=status.artifacts,
        items=facts.items,
        agents=status.agents,
        handoffs=status.handoffs,
        usage=status.usage,
        ready=ready(facts.verdicts),
        gates={verdict.name: str(verdict.status).replace("_", " ") for verdict in facts.verdicts},
    )


def commit_subject(step: PlanStep) -> str:
    """First line of a step's commit."""
    first = step.description.splitlines()[0].strip().rstrip(".")
    return first if len(first) <= 72 else f"{first[:71]}…"


def plan_artifacts(plan: Plan) -> tuple[Artifact, ...]:
    """`plan.json` and the specs of all steps."""
    specs = [
        Artifact(
            name=f"tasks/{step.step}.yaml",
            form="yaml",
            value={
                "goal": step.description,
                "constraints": _constraints(step),
                "context_files": [*([_context_path(step.input_context)] if step.input_context else []), *step.items],
                "expected_output_path": _expected_path(plan, step.step),
                "blocked_on": list(step.depends_on),
            },
        )
        for step in plan.plan
    ]
    return (Artifact(name="plan.json", form="json", value=plan.model_dump(mode="json")), *specs)


def _constraints(step: PlanStep) -> list[str]:
    """What must hold afterwards, and which files may change beside the step's items."""
    owned = [f"may also write: {', '.join(step.owns)}"] if step.owns else []
    command = [f"runs a command instead of an agent: {step.run}"] if step.run else []
    return [*step.success_criteria, *owned, *command]


def _context_path(input_context: str) -> str:
    return f"outputs/{input_context}" if output_of(input_context) else input_context


def _expected_path(plan: Plan, number: int) -> str:
    """What later steps want from the step, else its result."""
    wanted = expected(plan.plan, number)
    return f"outputs/{number}/{wanted[0]}" if wanted else f"results/{number}.yaml"


def step_artifacts(result: StepResult) -> tuple[Artifact, ...]:
    """What changes when a step ends, beside the progress."""
    return (Artifact(name=f"results/{result.step}.yaml", form="yaml", value=result.model_dump(mode="json")),)


def progress_artifacts(progress: Progress) -> tuple[Artifact, ...]:
    """The files that follow the whole progress; rendered where it is kept, so that no history carries them."""
    return (
        Artifact(name="ledger.json", form="json", value=_ledger(progress.ledger)),
        Artifact(name="knowledge.json", form="json", value=[e.model_dump(mode="json") for e in progress.knowledge]),
        Artifact(name="state.json", form="json", value=progress.model_dump(mode="json")),
    )


def report_artifacts(facts: ReportFacts) -> tuple[Artifact, ...]:
    """Everything that is written at the end, beside the progress."""
    never_started = [result for result in facts.results if result.status is StepStatusWord.NOT_ATTEMPTED]
    return (
        *(artifact for result in never_started for artifact in step_artifacts(result)),
        Artifact(name="integration-report.json", form="json", value=_report(facts)),
        Artifact(name="report.md", form="text", value=markdown(facts)),
        Artifact(name="issues.json", form="json", value=issues(facts)),
        Artifact(name="baseline.json", form="json", value=[gate.model_dump(mode="json") for gate in facts.baseline]),
    )


def _ledger(records: Mapping[int, Sequence[ItemRecord]]) -> list[dict[str, Any]]:
    return [
        {"step": step, **record.model_dump(mode="json")} for step, rows in sorted(records.items()) for record in rows
    ]


def _report(facts: ReportFacts) -> dict[str, Any]:
    status = facts.status
    return {
        "task_id": status.task_id,
        "task": status.task,
        "state": status.state,
        "summary": status.summary,
        "synthesis": facts.synthesis.model_dump(mode="json", exclude={"usage"}),
        "ready": ready(facts.verdicts),
        "base_commit": status.base_commit,
        "result": {"ref": status.ref, "commit": facts.head},
        "steps": [result.model_dump(mode="json") for result in facts.results],
        "quality_gates": [verdict.model_dump(mode="json") for verdict in facts.verdicts],
        "performance": {
            "timings": [timing.model_dump(mode="json") for timing in facts.timings],
            "sizes": [size.model_dump(mode="json") for size in facts.size_changes],
            "note": NOISE_NOTE if facts.timings else "",
        },
        "consistency_checks": consistency_checks(facts),
        "contradictions": [one.model_dump(mode="json") for one in facts.settlements],
        "conflicts": facts.integration.get("conflicts", []),
        "integration_summary": facts.integration.get("summary", ""),
        "items": facts.items.model_dump(),
        "agents": status.agents,
        "handoffs": status.handoffs,
        "usage": status.usage.model_dump(mode="json"),
        "duration_seconds": facts.duration.total_seconds() if facts.duration else None,
        "waiting_seconds": facts.waited.total_seconds(),
        "issues": issues(facts),
    }
