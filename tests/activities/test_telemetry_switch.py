"""Telemetry is off unless somebody asks for it, and then costs nothing, not even an import."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import anthropic
import pytest

from activities.credentials import Credentials
from activities.model_client import new_client
from activities.telemetry_wanted import exporters, header_values, is_wanted
from baton.environment import allowed_environment
from cli.credentials import remove_credentials, save_credentials
from cli.processes import service_environment

LOADED = """
import os, sys
from pathlib import Path
import worker
from activities.credentials import Credentials
from activities.model_client import new_client
telemetry = worker._telemetry(Path(sys.argv[1]), Credentials(Path(sys.argv[1]) / "none.json"))
loaded = [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter", "requests"))]
print(telemetry is not None, bool(loaded))
"""


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "mine"}, False),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, True),
    ],
)
def test_without_a_wish_nothing_of_the_sdk_is_loaded(
    variables: dict[str, str], on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-c", LOADED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == [str(on), str(on)]


def test_the_command_line_loads_nothing_of_opentelemetry() -> None:
    """Whatever is set: it is the worker that tells."""
    loads = "import sys, starter, cli.application, cli.tasks, cli.listing, cli.starting; cli.application.build()"
    asks = "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    command = [sys.executable, "-c", f"{loads}; {asks}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


def test_the_variables_name_exporters_for_each_signal() -> None:
    only_traces = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}
    assert (exporters("traces", only_traces), exporters("metrics", only_traces)) == (["otlp"], [])
    both = {"OTEL_TRACES_EXPORTER": "console, otlp"}
    assert (exporters("traces", both), exporters("metrics", both)) == (["console", "otlp"], [])
    assert is_wanted(both)


def test_values_of_headers_are_secrets() -> None:
    assert header_values("api-key=one%20two,x-team=three") == ["one%20two", "three", "one two"]


def test_a_collectors_credentials_are_masked_and_reach_no_environment(tmp_path: Path) -> None:
    given = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=abcdefgh%21", "OTEL_SERVICE_NAME": "mine", "OTEL_TRACES_SAMPLER": "x"}
    save_credentials(tmp_path, given)
    file = tmp_path / "service" / "telemetry.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secrets = Credentials(tmp_path / "service" / "credentials.json", {}).secrets()
    assert secrets == ("abcdefgh!", "abcdefgh%21")
    assert "OTEL_EXPORTER_OTLP_HEADERS" not in service_environment(given, keep_temporal=True)
    assert "OTEL_SERVICE_NAME" in service_environment(given, keep_temporal=True)
    assert not [name for name in service_environment(given, keep_temporal=True, keep_telemetry=False) if "OTEL" in name]
    assert not [name for name in allowed_environment(given) if "OTEL" in name]
    remove_credentials(tmp_path)
    assert not file.exists()


def test_the_spans_of_the_clients_own_are_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-test")
    given: dict[str, object] = {}
    make = anthropic.AsyncAnthropic.__init__

    def watched(self: anthropic.AsyncAnthropic, **options: object) -> None:
        given.update(options)
        make(self, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(anthropic.AsyncAnthropic, "__init__", watched)
    new_client(Credentials(tmp_path / "none.json").current())
    assert given["open_telemetry"] is False
