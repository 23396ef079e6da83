"""Rows of a plan and a ledger, a page at a time: answers of the queries of the same names."""

from collections.abc import Mapping, Sequence
from typing import Any

from baton.ledger import ItemRecord
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


def _page(rows: Sequence[Any], request: Mapping[str, Any]) -> list[Any]:
    offset, limit = int(request.get("offset", 0)), min(int(request.get("limit", 200)), ROWS_AT_MOST)
    return list(rows[offset : offset + limit])
