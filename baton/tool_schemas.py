"""What each role may call, the JSON schemas that a request declares, and the check of what a model sent.

The schemas of one agent are byte-stable: same order, same keys, whatever the process. An input that does not fit
is answered by a `ToolFault` that names the field and shows the expected form; it never raises.
"""

import difflib
import json
from collections.abc import Collection, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from baton import tool_inputs
from baton.models import Stored, Submitted
from baton.permissions import GRANTED_BY, tool_of_rule

JsonSchema: TypeAlias = dict[str, Any]

INPUT_LIMIT_BYTES = 1_000_000
"""An input longer than this is refused before it is looked at."""

INPUTS: dict[str, type[Submitted]] = {
    "read": tool_inputs.Read,
    "write": tool_inputs.Write,
    "append": tool_inputs.Append,
    "edit": tool_inputs.Edit,
    "glob": tool_inputs.Glob,
    "grep": tool_inputs.Grep,
    "bash": tool_inputs.Bash,
    "complete_item": tool_inputs.CompleteItem,
    "record": tool_inputs.Record,
    "hand_off": tool_inputs.HandOff,
    "ask_predecessor": tool_inputs.AskPredecessor,
    "finish_step": tool_inputs.FinishStep,
    "submit_plan": tool_inputs.SubmitPlan,
    "ask_user": tool_inputs.AskUser,
    "submit_review": tool_inputs.SubmitReview,
    "submit_resolution": tool_inputs.SubmitResolution,
    "submit_integration": tool_inputs.SubmitIntegration,
    "submit_summary": tool_inputs.SubmitSummary,
    "submit_route": tool_inputs.SubmitRoute,
}

WORKSPACE_TOOLS = ("read", "write", "append", "edit", "glob", "grep", "bash")
"""Tools that touch files or run commands; agent files and permissions narrow only these."""

ROLE_TOOLS: dict[str, tuple[str, ...]] = {
    "planner": ("read", "glob", "grep", "submit_plan", "ask_user"),
    "executor": (
        *WORKSPACE_TOOLS,
        *("complete_item", "record", "hand_off", "ask_predecessor", "finish_step"),
    ),
    "reviewer": ("read", "glob", "grep", "bash", "submit_review"),
    "resolver": ("read", "write", "append", "edit", "grep", "bash", "submit_resolution"),
    "integrator": (*WORKSPACE_TOOLS, "submit_integration"),
    "summarizer": ("submit_summary",),
    "router": ("submit_route",),
}


class ToolFault(Stored):
    """Why a call cannot be run; `message` is what the model reads."""

    message: str


def names_for(
    role: str,
    *,
    has_predecessor: bool = False,
    agent_tools: Sequence[str] | None = None,
    disallowed: Sequence[str] = (),
) -> tuple[str, ...]:
    """The tools of one agent, in the order of the contract.

    `agent_tools` and `disallowed` are `tools` and `disallowedTools` of an agent file (names of Claude Code or
    ours; `None` = all). They narrow the tools for files and commands, never those that end or report the work.
    A scoped entry such as `Bash(npm run *)` counts as its tool: its scope is a matter of permissions.
    KeyError for an unknown role.
    """
    granted = set(WORKSPACE_TOOLS) if agent_tools is None else _granted(agent_tools)
    withdrawn = _granted([entry for entry in disallowed if "(" not in entry], for_rules=True)
    return tuple(
        name
        for name in ROLE_TOOLS[role]
        if (name not in WORKSPACE_TOOLS or name in granted - withdrawn)
        and (name != "ask_predecessor" or has_predecessor)
    )


def tools_for(
    role: str,
    *,
    has_predecessor: bool = False,
    agent_tools: Sequence[str] | None = None,
    disallowed: Sequence[str] = (),
) -> list[JsonSchema]:
    """The `tools` of a request for one agent: name, description, input_schema. Arguments as for `names_for`."""
    names = names_for(role, has_predecessor=has_predecessor, agent_tools=agent_tools, disallowed=disallowed)
    return [
        {
            "name": name,
            "description": " ".join((INPUTS[name].__doc__ or "").split()),
            "input_schema": deepcopy(schema(INPUTS[name])),
        }
        for name in names
    ]


@cache
def schema(model: type[BaseModel]) -> JsonSchema:
    """The JSON schema of a model, without references, titles and `null` alternatives. Made once: it takes long."""
    raw = model.model_json_schema()
    plain = _plain(raw, raw.get("$defs", {}))
    if not isinstance(plain, dict):
        raise TypeError(f"{model.__name__} has no object schema")
    plain.pop("description", None)
    return plain


def parse(name: str, raw: object, available: Collection[str] | None = None) -> Submitted | ToolFault:
    """The checked input of one call, or what is wrong with it.

    `available`: the tools of this agent (`names_for`), all when absent.
    """
    names = list(INPUTS) if available is None else list(available)
    if name not in names or name not in INPUTS:
        near = difflib.get_close_matches(name[:80].lower(), names, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return ToolFault(message=f"There is no tool {name[:80]!r}.{hint} Available: {', '.join(names)}.")
    if not isinstance(raw, dict):
        found = _json_kind(raw)
        return ToolFault(message=f"{name}: the input must be an object, not {found}. {_expected(name)}")
    if refused := _text_fault(raw):
        return ToolFault(message=f"{name}: {refused}")
    try:
        return INPUTS[name].model_validate(raw)
    except ValidationError as error:
        faults = [_fault(name, detail) for detail in error.errors(include_url=False, include_input=True)[:8]]
        return ToolFault(message=f"{name}: {'; '.join(faults)}. {_expected(name)}")


def _granted(entries: Sequence[str], *, for_rules: bool = False) -> set[str]:
    """Our tools behind these names. As a rule `Edit` stands for every way to change a file; as a grant for edit."""
    found: set[str] = set()
    for entry in entries:
        name = tool_of_rule(entry)
        granted = GRANTED_BY.get(name.lower(), ())
        found.update(("edit", "write", "append") if for_rules and "edit" in granted else granted)
    return found


def _plain(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(entry, definitions) for entry in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        return _plain({**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions)
    if "anyOf" in node:
        choices = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
        if len(choices) == 1:
            rest = {key: value for key, value in node.items() if key != "anyOf"}
            return _plain({**choices[0], **rest}, definitions)
    return {
        key: {name: _plain(entry, definitions) for name, entry in value.items()}
        if key == "properties"
        else _plain(value, definitions)
        for key, value in node.items()
        if key not in {"title", "$defs"} and not (key == "default" and value is None)
    }


def _text_fault(raw: dict[Any, Any]) -> str | None:
    """What keeps an input from being looked at: too long, or text that cannot be stored."""
    try:
        size = len(json.dumps(raw, ensure_ascii=False, default=str).encode())
    except UnicodeEncodeError:
        return "the input holds half of a surrogate pair, which is no valid text. Send the whole character."
    if size <= INPUT_LIMIT_BYTES:
        return None
    return (
        f"the input has {size} bytes; at most {INPUT_LIMIT_BYTES} are taken. "
        "Write long files in parts: write the first part, then append the others."
    )


def _fault(name: str, detail: ErrorDetails) -> str:
    place = ".".join(str(part) for part in detail["loc"]) or "input"
    place = place[:80]
    match detail["type"]:
        case "missing":
            return f"`{place}` is missing"
        case "extra_forbidden":
            return f"`{place}` is not a field{_field_hint(name, place)}"
        case _:
            return f"`{place}` is {_json_kind(detail['input'])}: {detail['msg'][:200].lower()}"


def _field_hint(name: str, place: str) -> str:
    if (name, place) == ("bash", "restart"):
        return " (every call is a fresh shell, there is nothing to restart)"
    near = difflib.get_close_matches(place, list(INPUTS[name].model_fields), n=1)
    return f" (did you mean `{near[0]}`?)" if near else ""


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = ((bool, "a boolean"), (int, "a number"), (float, "a number"), (str, "a string"))
    for kind, word in kinds:
        if isinstance(value, kind):
            return word
    return "an array" if isinstance(value, list | tuple) else "an object"


def _expected(name: str) -> str:
    return f"Expected: {_form(schema(INPUTS[name]))}"


def _form(node: JsonSchema) -> str:
    """A schema in one line: `{file_path: string, view_range?: [integer]}`."""
    if "enum" in node:
        return " | ".join(json.dumps(value) for value in node["enum"])
    if node.get("type") == "array":
        return f"[{_form(node.get('items', {}))}]"
    if node.get("type") == "object" and "properties" in node:
        required = node.get("required", ())
        return (
            "{"
            + ", ".join(
                f"{field}{'' if field in required else '?'}: {_form(entry)}"
                for field, entry in node["properties"].items()
            )
            + "}"
        )
    return str(node.get("type", "any"))
