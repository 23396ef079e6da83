"""Settings: what may be set, the layers they come from, and the one resolved set that a task runs with.

Layers are given as (source, data) in rising precedence; the last one that names a key wins. A fault names the
source, the key and what is allowed. Nothing here reads files: whoever has the layers resolves them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, AliasGenerator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from baton.budget import SMALLEST_BUDGET_TOKENS, Budget
from baton.durations import Duration
from baton.layout import DEFAULT_ARTIFACTS
from baton.models import Stored
from baton.pricing import Price

Phase = Literal["planning", "integration"]
ReviewWhen = Literal["auto", "always", "never"]
SandboxMode = Literal["auto", "on", "off"]

MODEL_ALIASES: Mapping[str, str] = {
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}
"""Claude Code's short names and the newest model of each line."""


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(alias=to_camel),
        populate_by_name=True,
        serialize_by_alias=True,
    )


def _in_repository(pattern: str) -> str:
    if not pattern.strip("./") or pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise ValueError("must be a path or glob inside the repository, such as dist/*.js")
    return pattern


RepositoryPath = Annotated[str, AfterValidator(_in_repository)]


class RoleModels(_Section):
    """The model of each role; the resolver works with the integrator's."""

    planner: str = Field(default="claude-opus-5-5", description="Model that plans")
    executor: str = Field(default="claude-sonnet-5-5", description="Model of the agents that work on steps")
    reviewer: str = Field(default="claude-opus-5-5", description="Model that reviews steps")
    integrator: str = Field(default="claude-sonnet-5-5", description="Model that integrates and resolves conflicts")
    summarizer: str = Field(
        default="claude-haiku-5-5", description="Model of small calls: the way of a task, the summary"
    )

    def of(self, role: str) -> str:
        """The model id for a role, aliases and `inherit` resolved."""
        named = getattr(self, "integrator" if role == "resolver" else role)
        if named == "inherit":
            named = RoleModels().of(role)
        return MODEL_ALIASES.get(named, named)


class Limits(_Section):
    """What a task may use. None: no limit. Zero: none allowed."""

    cost_usd: Decimal | None = Field(default=None, ge=0, description="USD, all agents together")
    output_tokens: int | None = Field(default=None, ge=0, description="Output tokens, all agents together")
    duration: Duration | None = Field(default=None, description="Time since the start, such as 2h")
    model_calls: int | None = Field(default=None, ge=0, description="Model calls, all agents together")


INTEGRITY_GATE = "integrity"
"""The name of the verdict on the gates themselves, which no gate may have."""


class GateSetting(_Section):
    """A command that must pass."""

    name: str = Field(min_length=1, description="Its name in the report; no two gates have the same")
    command: str = Field(min_length=1, description="Shell command, run at the top of a workspace; exit 0: passed")
    kind: Literal["test", "build", "lint", "types", "coverage", "security", "custom"] = Field(
        default="custom", description="How its output is read: test, build, lint, types, coverage, security or custom"
    )
    timeout: Duration = Field(default="15m", validate_default=True, description="Longest time it may take")


class Settings(_Section):
    """The `orchestration` section, complete."""

    enabled: bool = Field(default=True, description="Whether tasks may be started here")
    max_agents: int = Field(
        default=10,
        ge=0,
        description="Agents of a task at most: executors, resolvers and integrators, successors included",
    )
    max_parallel_agents: int = Field(default=3, ge=1, description="Agents at work side by side at most")
    parallel_execution: bool = Field(default=True, description="Whether steps may run side by side")
    output_token_threshold: float = Field(
        default=0.8, gt=0, lt=1, description="Share of the budget at which an agent prepares to hand off"
    )
    handoff_threshold: float = Field(
        default=0.95, gt=0, lt=1, description="Share of the budget at which an agent hands off"
    )
    output_budget: int = Field(
        default=32_000, ge=SMALLEST_BUDGET_TOKENS, description="Output tokens an agent may produce"
    )
    require_approval: bool = Field(default=False, description="Whether the phases below wait for a person")
    approve_phases: tuple[Phase, ...] = Field(
        default=("planning", "integration"), description="Phases that wait for a person where approval is required"
    )
    persist_state: bool = Field(default=True, description="Whether more than the report is kept among the artifacts")
    state_directory: str = Field(
        default=DEFAULT_ARTIFACTS, description="Folder of the artifacts, relative to the repository"
    )
    default_integrator: str = Field(default="general-integrator", description="Agent type that integrates")
    models: RoleModels = Field(
        default=RoleModels(), description="Model of each role: an id, opus, sonnet, haiku or inherit"
    )
    limits: Limits = Field(default=Limits(), description="What a task may use; null: no limit, 0: none allowed")
    on_limit: Literal["ask", "integrate", "stop"] = Field(
        default="ask", description="When a limit is reached: ask a person, integrate what is there, or stop"
    )
    gates: tuple[GateSetting, ...] | None = Field(
        default=None, description="Commands that must pass on the result; null: those found in the repository"
    )
    sizes: tuple[RepositoryPath, ...] = Field(
        default=(), description="Files, folders or globs whose size is compared with the base commit, after the gates"
    )
    setup: tuple[str, ...] = Field(default=(), description="Commands to run in each new workspace")
    copy_files: tuple[str, ...] = Field(
        default=(), alias="copy", description="Untracked files to bring along into each workspace"
    )
    review: ReviewWhen = Field(
        default="auto",
        description="When finished steps are reviewed; auto: where claims go beyond facts, or the change is risky",
    )
    review_lenses: tuple[str, ...] = Field(
        default=(),
        description="Views of a review, an agent each: correctness, security, performance, maintainability, any text",
    )
    sandbox: SandboxMode = Field(default="auto", description="Whether commands run in a sandbox")
    notify: str | None = Field(
        default=None, description="Command to run when a task waits for a person or ends; desktop: a notification there"
    )
    prices: dict[str, Price] = Field(default_factory=dict, description="USD per million tokens, by model id")

    @property
    def budget(self) -> Budget:
        """The output budget of every agent."""
        return Budget(
            tokens=self.output_budget,
            prepare_share=self.output_token_threshold,
            hand_off_share=self.handoff_threshold,
        )


class PermissionRules(Stored):
    """`permissions` of the same files; the rules of all files add up."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()


class Layer(Stored):
    """One source of settings: a file or the command line. `project`: a file that came with the repository.

    `remarks`: what of the file does not count, and why.
    """

    source: str
    orchestration: dict[str, Any] = Field(default_factory=dict)
    permissions: PermissionRules = PermissionRules()
    project: bool = False
    remarks: tuple[str, ...] = ()


class SettingsFaults(ValueError):  # noqa: N818 - these are the faults themselves
    """Every fault in the settings, each naming source, key and what is allowed."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(faults))


def parse_layer(source: str, text: str, *, project: bool = False) -> Layer:
    """The layer in the text of a settings file; keys that are not ours are left to Claude Code.

    A project's file may ask for the sandbox, never do without it.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsFaults(
            [f"{source}: line {error.lineno}, column {error.colno}: not valid JSON ({error.msg})"]
        ) from error
    if not isinstance(data, dict):
        raise SettingsFaults([f"{source}: the file must hold a JSON object"])
    orchestration = data.get("orchestration", {})
    if not isinstance(orchestration, dict):
        raise SettingsFaults([f"{source}: orchestration must be a JSON object"])
    try:
        permissions = PermissionRules.model_validate(data.get("permissions") or {})
    except ValidationError as error:
        raise SettingsFaults(_faults(source, error, prefix="permissions")) from error
    remarks: tuple[str, ...] = ()
    if project and orchestration.get("sandbox") in {"auto", "off"}:
        weaker = orchestration["sandbox"]
        orchestration = {key: value for key, value in orchestration.items() if key != "sandbox"}
        if weaker == "off":
            remarks = (f"{source}: sandbox: off counts only in the user's own settings or as --sandbox off",)
    return Layer(source=source, orchestration=orchestration, permissions=permissions, project=project, remarks=remarks)


def resolve(layers: Sequence[Layer]) -> Settings:
    """The settings of all layers together. Raises `SettingsFaults` with every fault of every layer."""
    faults: list[str] = []
    merged: dict[str, Any] = {}
    for layer in layers:
        try:
            own = Settings.model_validate(layer.orchestration)
        except ValidationError as error:
            faults += _faults(layer.source, error, prefix="orchestration")
            continue
        faults += _gate_faults(layer.source, own.gates or ())
        merged = _merge(merged, layer.orchestration)
    if faults:
        raise SettingsFaults(faults)
    settings = Settings.model_validate(merged)
    if settings.output_token_threshold >= settings.handoff_threshold:
        raise SettingsFaults(
            [f"orchestration.outputTokenThreshold must be below handoffThreshold ({settings.handoff_threshold})"]
        )
    return settings


def _gate_faults(source: str, gates: Sequence[GateSetting]) -> list[str]:
    """Results are told and compared by name. No check of the model: what an older version stored must still load."""
    found = []
    for place, gate in enumerate(gates):
        where = f"{source}: orchestration.gates.{place}.name"
        earlier = next((number for number, other in enumerate(gates[:place]) if other.name == gate.name), None)
        if earlier is not None:
            found.append(f"{where}: {gate.name!r} is the name of gate {earlier} too; give each gate a name of its own")
        if gate.name == INTEGRITY_GATE:
            found.append(
                f"{where}: {gate.name!r} is what the report calls its word on the gates themselves; take another"
            )
    return found


def permissions_of(layers: Sequence[Layer]) -> PermissionRules:
    """The rules of all layers together."""
    return PermissionRules(
        allow=tuple(rule for layer in layers for rule in layer.permissions.allow),
        deny=tuple(rule for layer in layers for rule in layer.permissions.deny),
        ask=tuple(rule for layer in layers for rule in layer.permissions.ask),
    )


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        earlier = merged.get(key)
        merged[key] = _merge(earlier, value) if isinstance(earlier, dict) and isinstance(value, dict) else value
    return merged


def _faults(source: str, error: ValidationError, prefix: str) -> list[str]:
    found = []
    for detail in error.errors():
        key = ".".join([prefix, *(str(part) for part in detail["loc"])])
        if detail["type"] == "extra_forbidden":
            known = _keys_beside(detail["loc"]) if prefix == "orchestration" else ()
            found.append(f"{source}: {key} is no setting" + (f"; allowed are: {', '.join(known)}" if known else ""))
        else:
            found.append(f"{source}: {key}: {detail['msg']} (found {json.dumps(detail['input'], default=str)[:80]})")
    return found


def _keys_beside(place: Sequence[str | int]) -> list[str]:
    """The keys that are allowed where one that is none was found, sorted."""
    section: type[BaseModel] | None = Settings
    for part in place[:-1]:
        fields = section.model_fields if section else {}
        field = next((field for name, field in fields.items() if part in {name, field.alias}), None)
        if field is not None:
            section = next(iter(_models_in(field.annotation)), None)
    return sorted(field.alias or name for name, field in section.model_fields.items()) if section else []


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a value of this type is or holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
