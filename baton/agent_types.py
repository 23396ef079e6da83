"""Agent types: what an agent file says, which type a step gets, and what the plan must say of types that do not exist.

A file is Markdown with a header: `name` and `description`, and how executors of the type work (`tools`,
`disallowedTools`, `model`, `effort`, `maxTurns`); the text below the header is added to their prompt. Nothing here
reads files or YAML: whoever has a header's fields parses them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from baton.models import Stored
from baton.permissions import parse_rule, unknown_tools
from baton.plan import Plan
from baton.settings import MODEL_ALIASES

GENERAL = "general"
"""The built-in type: an executor without instructions of its own. It takes every step that fits no other type."""

DESCRIPTION_SHOWN = 600
"""Characters of a description that the planner sees."""

PROMPT_LIMIT_CHARACTERS = 40_000

WITHOUT_EFFECT = ("hooks", "mcpServers", "permissionMode", "skills", "memory", "isolation", "background")
"""Fields of Claude Code's agent files that ask for something Baton does not do."""


class AgentType(Stored):
    """One type, complete. `tools`: None means all; `model`: an id, None means the executor's; `source`: its file."""

    name: str
    description: str
    source: str = ""
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    model: str | None = None
    effort: str | None = None
    max_turns: int | None = None

    @property
    def scoped_grants(self) -> tuple[str, ...]:
        """Grants such as `Bash(npm test *)` of tools that are granted in no wider form."""
        rules = [parse_rule(entry) for entry in self.tools or ()]
        whole = {rule.tool for rule in rules if rule.scope is None}
        return tuple(rule.text for rule in rules if rule.tool not in whole)

    @property
    def scoped_refusals(self) -> tuple[str, ...]:
        """Refusals of a part of a tool, such as `Bash(git push *)`; refusals of whole tools are not offered at all."""
        return tuple(entry for entry in self.disallowed_tools if parse_rule(entry).scope is not None)

    def warnings(self) -> list[str]:
        """One sentence for each entry without effect."""
        entries = (*(self.tools or ()), *self.disallowed_tools)
        return [f"{self.source}: {warning}" for warning in unknown_tools(entries)]


class TypeRow(Stored):
    """A type as the workflow knows it: what an assignment needs, without the long texts."""

    name: str
    description: str = ""
    model: str | None = None
    effort: str | None = None
    max_turns: int | None = None
    context_tokens: int | None = None
    most_output_tokens: int | None = None


class AgentFileFault(ValueError):  # noqa: N818 - the word of the contract
    """An agent file that cannot be used, in one sentence that names the file and what is wrong."""


def split_header(text: str) -> tuple[str, str] | None:
    """The header and the body of an agent file, None when it has no header between two lines of `---`."""
    found = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)(.*)", text, re.DOTALL | re.MULTILINE)
    return (found[1], found[2]) if found else None


def agent_type(source: str, header: Mapping[str, Any], body: str) -> AgentType:
    """The type that a file describes. Raises `AgentFileFault` with every fault of its header."""
    try:
        fields = _Header.model_validate(header)
    except ValidationError as error:
        raise AgentFileFault(f"{source}: " + "; ".join(map(_fault, error.errors(include_url=False)))) from error
    prompt = body.strip()
    if len(prompt) > PROMPT_LIMIT_CHARACTERS:
        raise AgentFileFault(f"{source}: the prompt has {len(prompt)} characters, at most {PROMPT_LIMIT_CHARACTERS}")
    model = None if fields.model in {None, "inherit"} else MODEL_ALIASES.get(str(fields.model), fields.model)
    return AgentType(
        name=fields.name,
        description=fields.description,
        source=source,
        prompt=prompt,
        tools=fields.tools,
        disallowed_tools=fields.disallowed_tools or (),
        model=model,
        effort=fields.effort,
        max_turns=fields.max_turns,
    )


def registry(found: Sequence[AgentType]) -> tuple[tuple[AgentType, ...], list[str]]:
    """The types by first come, first served (so the project's files go first), and what is said of the others."""
    kept: dict[str, AgentType] = {}
    warnings: list[str] = []
    for one in found:
        if (earlier := kept.setdefault(one.name, one)) is not one:
            warnings.append(f"{one.source}: the agent type {one.name!r} is taken from {earlier.source}")
    return tuple(kept.values()), warnings


def shown_types(types: Sequence[TypeRow]) -> list[dict[str, str]]:
    """The registry as the planner sees it; empty when nobody described a type, so that a plan may name any."""
    if not types:
        return []
    general = TypeRow(name=GENERAL, description="An executor for any step that no other type is made for.")
    rows = [*types, *([] if type_named(types, GENERAL) else [general])]
    return [{"name": row.name, "description": row.description} for row in rows]


def shortened(description: str) -> str:
    """A description in one line, as long as the planner sees it."""
    text = " ".join(description.split())
    return text if len(text) <= DESCRIPTION_SHOWN else f"{text[: DESCRIPTION_SHOWN - 1]}…"


def type_named(types: Iterable[TypeRow], name: str) -> TypeRow | None:
    """The type of this name; None stands for the general executor."""
    return next((row for row in types if row.name == name), None)


def with_general_types_noted(plan: Plan, types: Sequence[TypeRow]) -> Plan:
    """The plan, whose notes say which steps a general executor does because their type is not in the registry."""
    known = {row.name for row in types} | {GENERAL}
    notes = [
        f"step {step.step} is done by a general executor: there is no agent type {step.agent_type!r}"
        for step in plan.plan
        if types and step.agent_type not in known
    ]
    return plan.model_copy(update={"notes": (*plan.notes, *(note for note in notes if note not in plan.notes))})


def _entries(given: Any) -> Any:
    """Tools as a list or as one text with commas; commas inside parentheses separate nothing. `*`, nothing: all."""
    if isinstance(given, str):
        given = [entry.strip() for entry in re.split(r",(?![^()]*\))", given)]
    if not isinstance(given, list):
        return given
    entries = tuple(entry for entry in given if entry != "")
    return None if not entries or "*" in entries else entries


def _absent(given: Any) -> Any:
    """A field without a value is one that is not there."""
    return None if given == "" else given


_Tools = Annotated[tuple[str, ...] | None, BeforeValidator(_entries)]


class _Header(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")

    name: str = Field(pattern=r"^\w[\w .:-]{0,63}$")
    description: str = Field(min_length=1)
    tools: _Tools = None
    disallowed_tools: _Tools = None
    model: Annotated[str | None, BeforeValidator(_absent)] = None
    effort: Annotated[Literal["low", "medium", "high", "xhigh", "max"] | None, BeforeValidator(_absent)] = None
    max_turns: Annotated[int | None, BeforeValidator(_absent)] = Field(default=None, ge=1)


def _fault(detail: Any) -> str:
    key = str(detail["loc"][0]) if detail["loc"] else "header"
    if detail["type"] == "missing":
        return f"{key} is missing"
    return f"{key}: {detail['msg']} (found {str(detail['input'])[:80]!r})"
