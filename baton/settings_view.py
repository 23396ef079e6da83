"""Settings as people and editors look at them: where each value comes from, what changes nothing, the schema."""

from collections.abc import Mapping, Sequence
from typing import Any

from baton.settings import Layer, Settings


def origins(layers: Sequence[Layer]) -> dict[str, str]:
    """For each value that some (valid) layer sets, the source of the one that holds: `limits.costUsd` -> `a.json`."""
    given = [(layer.source, Settings.model_validate(layer.orchestration)) for layer in layers]
    return {key: source for source, settings in given for key in flattened(settings.model_dump(exclude_unset=True))}


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by dotted key, in order; an empty object is a value of its own."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        nested = isinstance(value, Mapping) and value
        flat |= flattened(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return flat


def without_effect(layers: Sequence[Layer], settings: Settings) -> list[str]:
    """What is set and changes nothing, each with its source and why."""
    found = [remark for layer in layers for remark in layer.remarks]
    set_by = origins(layers)
    if "maxParallelAgents" in set_by and not settings.parallel_execution:
        source = set_by["maxParallelAgents"]
        found.append(f"{source}: maxParallelAgents has no effect: parallelExecution is false")
    if "approvePhases" in set_by and not settings.require_approval:
        source = set_by["approvePhases"]
        found.append(f"{source}: approvePhases has no effect without requireApproval or --approve-phases")
    return found


def file_schema() -> dict[str, Any]:
    """A JSON schema of a settings file for editors; keys that are not ours are left to Claude Code."""
    section = Settings.model_json_schema(by_alias=True)
    definitions = section.pop("$defs", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Claude Code, with those of Baton",
        "type": "object",
        "properties": {"orchestration": section},
        "$defs": definitions,
    }
