"""What a person may tell a running task, read from whatever a client sent.

A payload that makes no sense raises ValueError with a sentence for the person: what is wrong and what is allowed.
"""

from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from baton.durations import Duration, format_duration
from baton.models import Stored, Submitted
from baton.plan import PlanDraft
from baton.settings import Settings
from baton.wording import number

REMARK_CHARACTERS = 8000

M = TypeVar("M", bound=Submitted)


class Remark(Stored):
    """Guidance for all steps, or for one."""

    text: str
    step: int | None = None


class GivenRemark(Submitted):
    """The payload of `guide`."""

    text: str = Field(min_length=1, max_length=REMARK_CHARACTERS)
    step: int | None = None


class LimitsChange(Submitted):
    """The payload of `set_limits`. Only what is named changes; null takes a limit away, 0 allows none."""

    max_cost_usd: Decimal | None = Field(default=None, ge=0, allow_inf_nan=False)
    max_output_tokens: int | None = Field(default=None, ge=0)
    max_model_calls: int | None = Field(default=None, ge=0)
    max_duration: Duration | None = None
    max_agents: int = Field(default=0, ge=0)

    def applied(self, settings: Settings) -> Settings:
        """The settings with these limits."""
        named = self.model_fields_set
        own = {"max_cost_usd": "cost_usd", "max_output_tokens": "output_tokens", "max_model_calls": "model_calls"}
        own["max_duration"] = "duration"
        limits = settings.limits.model_copy(update={own[key]: getattr(self, key) for key in own if key in named})
        agents = self.max_agents if "max_agents" in named else settings.max_agents
        return settings.model_copy(update={"limits": limits, "max_agents": agents})

    def told(self) -> str:
        """The change in words: `max cost 40 USD, max duration 10 min, max agents 12`."""
        named = (key for key in type(self).model_fields if key in self.model_fields_set)
        return ", ".join(f"{key.removesuffix('_usd').replace('_', ' ')} {_shown(getattr(self, key))}" for key in named)


def _shown(limit: Decimal | int | timedelta | None) -> str:
    """A limit as people write it; the only decimal one is money."""
    match limit:
        case None:
            return "none"
        case timedelta():
            return format_duration(limit)
        case Decimal():
            return f"{limit:f} USD"
        case _:
            return number(limit)


def _alike(amount: Decimal, limit: object) -> Decimal | int | timedelta:
    """An amount in the unit of a limit; durations come in seconds."""
    if isinstance(limit, timedelta):
        return timedelta(seconds=float(amount))
    return amount if isinstance(limit, Decimal) else int(amount)


def given_object(act: str, payload: Any) -> dict[str, Any]:
    """The payload as an object; nothing counts as an empty one."""
    if payload is None:
        return {}
    if not isinstance(payload, dict):
        raise ValueError(f"{act}: the payload must be a JSON object, not {type(payload).__name__}")
    return payload


def given_remark(payload: dict[str, Any]) -> Remark:
    """The remark of `guide`."""
    text = payload.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError('guide: the remark has no text; send {"text": "…"} or {"text": "…", "step": 2}')
    read = _read(GivenRemark, "guide", payload | {"text": text.strip()})
    return Remark(text=read.text, step=read.step)


def given_limits(payload: dict[str, Any]) -> LimitsChange:
    """The new limits of `set_limits`."""
    change = _read(LimitsChange, "set_limits", payload)
    if not change.model_fields_set:
        raise ValueError(f"set_limits: no limit is named; there are: {', '.join(LimitsChange.model_fields)}")
    return change


def given_plan(payload: dict[str, Any]) -> tuple[PlanDraft, bool]:
    """The plan of `revise_plan`, and whether it is approved with that (`"approve": true` beside its own keys)."""
    approve = payload.get("approve", False)
    if not isinstance(approve, bool):
        raise ValueError("revise_plan: approve must be true or false")
    try:
        return PlanDraft.model_validate({key: value for key, value in payload.items() if key != "approve"}), approve
    except ValidationError as error:
        faults = [f"- {'.'.join(map(str, fault['loc'])) or 'the plan'}: {fault['msg']}" for fault in error.errors()]
        raise ValueError("the plan has faults:\n" + "\n".join(faults)) from error


def limit_from_comment(which: str, comment: str, used: Decimal) -> LimitsChange:
    """The new limit that a person wrote beside the choice `raise`. `used`: so much is used; it must be more."""
    text = comment.strip().removesuffix("USD").strip()
    form = "the time, such as 6h" if which == "max_duration" else "the amount, such as 40"
    name = which.removesuffix("_usd").replace("_", " ")
    if not text:
        option = f"--{which.removesuffix('_usd').replace('_', '-')}"
        raise ValueError(f"raise: say the new {name} in the comment ({form}), or use: orchestrate limits {option} …")
    change = given_limits({which: text})
    value = getattr(change, which)
    amount = value.total_seconds() if which == "max_duration" else value
    if Decimal(str(amount)) <= used:
        raise ValueError(f"raise: {change.told()} leaves nothing, {_shown(_alike(used, value))} are used already")
    return change


def _read(form: type[M], act: str, payload: dict[str, Any]) -> M:
    try:
        return form.model_validate(payload)
    except ValidationError as error:
        faults = []
        for detail in error.errors():
            key = ".".join(str(part) for part in detail["loc"])
            if detail["type"] == "extra_forbidden":
                faults.append(f"{key} is unknown; allowed are {', '.join(form.model_fields)}")
            else:
                faults.append(f"{key}: {detail['msg'].removeprefix('Value error, ')}")
        raise ValueError(f"{act}: {'; '.join(faults)}") from error
