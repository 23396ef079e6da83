"""From typed options to what the workflow gets."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from baton.settings import Layer, resolve
from cli.exits import Refused
from cli.starting import SUMMARY_LIMIT_BYTES, Options, first_line, prepare, settings_layer

EVERYTHING = Options(
    approve_phases=True,
    parallel=False,
    max_parallel=2,
    max_agents=5,
    max_cost="3.50",
    max_output_tokens=100_000,
    max_duration="2h",
    output_budget=8_000,
    models=("planner=opus", "executor=my-model"),
    gates=("tests=pytest -q -k 'a=b'",),
    sandbox="off",
)


def test_options_are_a_settings_layer() -> None:
    assert settings_layer(EVERYTHING) == {
        "maxAgents": 5,
        "maxParallelAgents": 2,
        "parallelExecution": False,
        "requireApproval": True,
        "outputBudget": 8_000,
        "sandbox": "off",
        "models": {"planner": "opus", "executor": "my-model"},
        "gates": [{"name": "tests", "command": "pytest -q -k 'a=b'"}],
        "limits": {"costUsd": "3.50", "outputTokens": 100_000, "duration": "2h"},
    }


def test_the_layer_resolves_and_what_is_not_given_is_left_to_the_files() -> None:
    assert settings_layer(Options()) == {}
    files = Layer(source="file", orchestration={"maxAgents": 7, "limits": {"modelCalls": 9}})
    given = Layer(source="the command line", orchestration=settings_layer(Options(max_cost="0")))
    settings = resolve([files, given])
    assert (settings.max_agents, settings.limits.model_calls) == (7, 9)
    assert settings.limits.cost_usd == Decimal(0)


def test_zero_is_zero() -> None:
    assert settings_layer(Options(max_agents=0, max_output_tokens=0)) == {"maxAgents": 0, "limits": {"outputTokens": 0}}


@pytest.mark.parametrize(
    ("header", "taken"), [("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", True), ("00-nonsense", False)]
)
def test_a_task_joins_the_trace_of_its_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], header: str, taken: bool
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-value")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRACEPARENT", header)
    order = prepare("do it", Options(repository="https://example.invalid/project.git"), tmp_path / "credentials.json")
    assert order.input.traceparent == (header if taken else "")
    assert ("TRACEPARENT" in capsys.readouterr().err) is not taken
    assert "TRACEPARENT" not in (order.input.environment or {})


def test_a_url_is_passed_on_and_the_environment_holds_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-value")
    monkeypatch.setenv("GITHUB_TOKEN", "secret-value")
    monkeypatch.setenv("HOME", str(tmp_path))
    url = "https://example.invalid/project.git"
    order = prepare("do it", Options(repository=url, mode="single", plan_only=True), tmp_path / "credentials.json")
    assert order.input.repository == url
    assert (order.input.mode, order.input.plan_only) == ("single", True)
    assert "secret-value" not in order.input.model_dump_json()
    assert order.input.environment is not None
    assert order.input.environment["HOME"] == str(tmp_path)
    assert "PATH" in order.input.environment


def test_credentials_that_the_service_has_are_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    saved = tmp_path / "credentials.json"
    options = Options(repository="https://example.invalid/project.git")
    with pytest.raises(Refused, match="no API key"):
        prepare("do it", options, saved)
    saved.write_text("{}")
    assert prepare("do it", options, saved).input.task == "do it"


@pytest.mark.parametrize("task", ["short", "x" * 500, "é" * 300, "整" * 300, "first\nsecond"])
def test_a_summary_is_one_line_that_temporal_takes(task: str) -> None:
    line = first_line(task)
    assert len(line.encode()) <= SUMMARY_LIMIT_BYTES
    assert line.rstrip("…") == task.partition("\n")[0][: len(line.rstrip("…"))]


def test_a_secret_in_a_plan_or_a_gate_is_refused_before_anything_starts(tmp_path: Path) -> None:
    token, url, saved = (
        "ghp_" + "k3Rw9ZbQ7mLx" * 3,
        "https://example.invalid/project.git",
        tmp_path / "credentials.json",
    )
    file = tmp_path / "plan.yaml"
    step = {"step": 1, "agent_type": "x", "description": "edit", "items": ["a.py"], "run": f"login {token} {{item}}"}
    file.write_text(json.dumps({"plan": [step]}), encoding="utf-8")
    with pytest.raises(Refused) as refused:
        prepare("do it", Options(repository=url, plan=file), saved)
    assert str(refused.value).startswith(f"--plan {file}: step 1, run holds what looks like a secret (ghp_k3Rw…)")
    with pytest.raises(Refused) as refused:
        prepare("do it", Options(repository=url, gates=(f"check=curl -H {token}",)), saved)
    assert str(refused.value).startswith("--gate check holds what looks like a secret (ghp_k3Rw…)")
