"""Models checked before a task starts: each exists, fills the output budget, and has a price where cost is limited."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from activities.errors import Reaction
from activities.model import Model, ModelError, ModelFacts
from baton.agent_types import AgentType, TypeRow, shortened
from baton.budget import SMALLEST_BUDGET_TOKENS
from baton.pricing import Usage, cost_usd
from baton.settings import Settings

ROLES_WITH_MODELS = ("planner", "executor", "integrator")
SUMMARIZER = "summarizer"
"""Writes short texts only: no output budget has to fit it."""


def roles_in_use(settings: Settings) -> tuple[str, ...]:
    """The roles that a task with these settings may have."""
    return (*ROLES_WITH_MODELS, *(("reviewer",) if settings.review != "never" else ()), SUMMARIZER)


class ModelRefused(ValueError):  # noqa: N818 - a refusal of what the user gave
    """A model that cannot serve, in one sentence that says whose it is and what to do."""


@dataclass(frozen=True)
class ModelChecks:
    """Asks the API about the models that a task's settings and agent files name."""

    model: Model
    settings: Settings

    async def roles(self) -> tuple[dict[str, int], dict[str, int]]:
        """Context windows and longest outputs by role. Raises `ModelRefused`."""
        windows, outputs = {}, {}
        roles = roles_in_use(self.settings)
        asked = await self._all((self.settings.models.of(role), f"the {role}") for role in roles)
        for role, facts in zip(roles, asked, strict=True):
            if facts.max_input_tokens is not None:
                windows[role] = facts.max_input_tokens
            if facts.max_tokens is not None:
                outputs[role] = facts.max_tokens
        return windows, outputs

    async def types(self, types: Sequence[AgentType]) -> tuple[TypeRow, ...]:
        """The registry as the workflow knows it. Raises `ModelRefused`."""
        own = {one.model: f"the agent type {one.name!r} ({one.source})" for one in reversed(types) if one.model}
        facts = dict(zip(own, await self._all(own.items()), strict=True))
        return tuple(
            TypeRow(
                name=one.name,
                description=shortened(one.description),
                model=one.model,
                effort=one.effort,
                max_turns=one.max_turns,
                context_tokens=facts[one.model].max_input_tokens if one.model else None,
                most_output_tokens=facts[one.model].max_tokens if one.model else None,
            )
            for one in types
        )

    async def _all(self, models: Iterable[tuple[str, str]]) -> list[ModelFacts]:
        """Of each model and whose it is: what the API says, asked at once, and once of each model."""
        models = list(models)
        names = list(dict.fromkeys(name for name, _ in models))
        answers = await asyncio.gather(*map(self.model.facts, names), return_exceptions=True)
        told = dict(zip(names, answers, strict=True))
        return [self._checked(told[name], name, whose) for name, whose in models]

    def _checked(self, facts: ModelFacts | BaseException, name: str, whose: str) -> ModelFacts:
        settings = self.settings
        try:
            if isinstance(facts, BaseException):
                raise facts
        except ModelError as error:
            if error.fault.status == 404:
                raise ModelRefused(
                    f"the model {name!r} of {whose} is unknown to the API ({error.fault.message})"
                ) from error
            if error.fault.reaction is Reaction.PERSON:
                raise ModelRefused(
                    f"the API refuses the credentials: {error.fault.message}. Set ANTHROPIC_API_KEY and try again."
                ) from error
            raise error.fault.error() from error
        small = whose == f"the {SUMMARIZER}"
        if not small and facts.max_tokens is not None and settings.output_budget > facts.max_tokens:
            raise ModelRefused(
                f"outputBudget is {settings.output_budget} tokens, but {name} ({whose}) allows at most "
                f"{facts.max_tokens} (and at least {SMALLEST_BUDGET_TOKENS} are needed)"
            )
        if settings.limits.cost_usd is not None and cost_usd(name, Usage(), settings.prices) is None:
            raise ModelRefused(
                f"a cost limit is set, but the model {name!r} of {whose} has no price: add it to prices in the "
                "settings, or limit outputTokens instead"
            )
        return facts
