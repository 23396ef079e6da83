"""Settings: later layers win, and every fault names its place."""

import json
from datetime import timedelta

import pytest

from baton.durations import format_duration, parse_duration
from baton.settings import Layer, Settings, SettingsFaults, parse_layer, permissions_of, resolve
from baton.settings_view import file_schema, origins, without_effect


def layer(source: str, **orchestration: object) -> Layer:
    return Layer(source=source, orchestration=orchestration)


def test_later_layers_win_key_by_key() -> None:
    layers = [
        layer("user", maxAgents=5, models={"planner": "opus", "executor": "haiku"}),
        layer("project", models={"executor": "sonnet"}),
        layer("command line", outputBudget=8_000),
    ]
    settings = resolve(layers)
    assert (settings.max_agents, settings.output_budget) == (5, 8_000)
    assert settings.models.of("planner") == "claude-opus-5-5"
    assert settings.models.of("executor") == "claude-sonnet-5-5"
    assert origins(layers) == {
        "maxAgents": "user",
        "models.planner": "user",
        "models.executor": "project",
        "outputBudget": "command line",
    }


def test_every_fault_names_file_key_and_what_is_allowed() -> None:
    with pytest.raises(SettingsFaults) as raised:
        resolve([layer("a.json", maxAgent=5), layer("b.json", outputBudget=10, models={"planer": "x"})])
    text = str(raised.value)
    assert "a.json: orchestration.maxAgent is no setting; allowed are: approvePhases" in text
    assert "b.json: orchestration.outputBudget" in text
    assert "4000" in text
    assert "b.json: orchestration.models.planer is no setting; allowed are: executor, integrator, planner" in text
    with pytest.raises(SettingsFaults, match=r"orchestration.gates.0.comand is no setting; allowed are: command, kind"):
        resolve([layer("c.json", gates=[{"name": "a", "comand": "b"}])])


def test_what_changes_nothing_is_named() -> None:
    layers = [
        layer("a.json", approvePhases=["planning"], maxParallelAgents=2),
        layer("b.json", parallelExecution=False),
    ]
    assert without_effect(layers, resolve(layers)) == [
        "a.json: maxParallelAgents has no effect: parallelExecution is false",
        "a.json: approvePhases has no effect without requireApproval or --approve-phases",
    ]


def test_the_schema_knows_every_key_as_it_is_written_and_leaves_others_alone() -> None:
    schema = file_schema()
    section = schema["properties"]["orchestration"]
    assert set(section["properties"]) == {field.alias for field in Settings.model_fields.values()}
    assert section["additionalProperties"] is False
    assert "additionalProperties" not in schema
    assert all("description" in shown for shown in section["properties"].values())


def test_thresholds_must_be_in_order() -> None:
    with pytest.raises(SettingsFaults, match="must be below handoffThreshold"):
        resolve([layer("x", outputTokenThreshold=0.96)])


def test_zero_is_a_limit() -> None:
    assert resolve([layer("x", limits={"costUsd": "0"}, maxAgents=0)]).limits.cost_usd == 0


def test_a_file_that_is_no_json_is_named_with_its_place() -> None:
    with pytest.raises(SettingsFaults, match=r"s\.json: line 2, column 2"):
        parse_layer("s.json", "{\n}}")
    with pytest.raises(SettingsFaults, match="must hold a JSON object"):
        parse_layer("s.json", "[]")


def test_keys_of_claude_code_are_left_alone_and_rules_add_up() -> None:
    one = parse_layer("a", json.dumps({"theme": "dark", "permissions": {"deny": ["Bash(rm *)"], "defaultMode": "x"}}))
    two = parse_layer("b", json.dumps({"permissions": {"deny": ["Read(.env)"], "allow": ["Bash(ls)"]}}))
    rules = permissions_of([one, two])
    assert rules.deny == ("Bash(rm *)", "Read(.env)")
    assert rules.allow == ("Bash(ls)",)


def test_settings_survive_being_stored() -> None:
    settings = resolve(
        [
            layer(
                "x",
                limits={"costUsd": 3, "duration": "2h"},
                gates=[{"name": "t", "command": "pytest"}],
                prices={"m": {"input": 2, "output": 10, "cacheRead": 0.2}},
                copy=[".env.test"],
            )
        ]
    )
    stored = Settings.model_validate_json(settings.model_dump_json())
    assert stored == settings
    assert stored.limits.duration == timedelta(hours=2)
    assert stored.copy_files == (".env.test",)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1h30m", 5400), (30, 30)])
def test_durations_are_read_as_people_write_them(text: object, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


def test_what_is_no_duration_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match="for example 90s"):
        parse_duration("soon")


def test_durations_are_written_for_people() -> None:
    assert [format_duration(timedelta(seconds=s)) for s in (0.42, 12, 60, 200, 7500)] == [
        "0.4 s",
        "12 s",
        "1 min",
        "3 min 20 s",
        "2 h 5 min",
    ]


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "a/../../x", "~/x", "", "."])
def test_sizes_are_of_the_repository(pattern):
    with pytest.raises(SettingsFaults) as raised:
        resolve([Layer(source="file", orchestration={"sizes": [pattern]})])
    assert "orchestration.sizes.0" in str(raised.value)
    assert "inside the repository" in str(raised.value)


def test_two_gates_of_one_name_are_a_fault_with_both_places() -> None:
    gates = [{"name": name, "command": "true"} for name in ("tests", "lint", "tests", "integrity")]
    with pytest.raises(SettingsFaults) as raised:
        resolve([Layer(source="s.json", orchestration={"gates": gates})])
    twice, taken = raised.value.faults
    assert (
        twice
        == "s.json: orchestration.gates.2.name: 'tests' is the name of gate 0 too; give each gate a name of its own"
    )
    assert taken.startswith("s.json: orchestration.gates.3.name: 'integrity' is what the report calls its word")
    one, other = ({"gates": [{"name": "tests", "command": command}]} for command in ("one", "other"))
    settled = resolve([Layer(source="a", orchestration=one), Layer(source="b", orchestration=other)])
    assert [gate.command for gate in settled.gates or ()] == ["other"]
