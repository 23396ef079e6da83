"""Rows of plan, ledger, knowledge and manifests, a page at a time: answers of the queries of the same names.

Without a step or an offset a query gives counts only, so that it stays small whatever the size of the task.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from baton.knowledge import Knowledge
from baton.ledger import ItemRecord
from baton.messages import HandoffRow
from baton.plan import Plan
from baton.status import StepStatus

ROWS_AT_MOST = 500


def plan_rows(plan: Plan | None, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer of the query `plan`."""
    if plan is None:
        return {"plan": None}
    if "step" in request:
        step = plan.step(int(request["step"]))
        return {"step": step.step, "total": len(step.items), "items": _page(step.items, request)}
    steps = [step.model_dump(mode="json", exclude={"items"}) | {"items": len(step.items)} for step in plan.plan]
    return plan.model_dump(mode="json", exclude={"plan"}) | {"plan": steps}


def ledger_rows(
    steps: Sequence[StepStatus], records: Mapping[int, Sequence[ItemRecord]], request: Mapping[str, Any]
) -> dict[str, Any]:
    """Answer of the query `ledger`."""
    if "step" in request:
        rows = records.get(int(request["step"]), ())
        page = [record.model_dump(mode="json") for record in _page(rows, request)]
        return {"step": int(request["step"]), "total": len(rows), "items": page}
    return {"steps": [{"step": step.step, **step.items.model_dump()} for step in steps]}


def manifest_rows(handoffs: Sequence[HandoffRow], request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer of the query `manifests`."""
    reasons = Counter(str(row.reason) for row in handoffs)
    if not {"step", "offset", "limit"} & set(request):
        return {"total": len(handoffs), "reasons": dict(reasons)}
    chosen = [row for row in handoffs if "step" not in request or row.step == int(request["step"])]
    return {"total": len(chosen), "manifests": [row.model_dump(mode="json") for row in _page(chosen, request)]}


def knowledge_rows(knowledge: Knowledge, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer of the query `knowledge`."""
    if not {"offset", "limit"} & set(request):
        return {"total": len(knowledge.entries), "kinds": dict(Counter(entry.kind for entry in knowledge.entries))}
    page = [entry.model_dump(mode="json") for entry in _page(knowledge.entries, request)]
    return {"total": len(knowledge.entries), "entries": page}


def _page(rows: Sequence[Any], request: Mapping[str, Any]) -> list[Any]:
    offset, limit = int(request.get("offset", 0)), min(int(request.get("limit", 200)), ROWS_AT_MOST)
    return list(rows[offset : offset + limit])
