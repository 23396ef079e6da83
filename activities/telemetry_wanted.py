"""Whether telemetry is wanted, by the standard `OTEL_*` variables; loads nothing of OpenTelemetry."""

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SIGNALS = ("traces", "metrics")
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether something is to be exported."""
    return any(exporters(signal, environment) for signal in SIGNALS)


def exporters(signal: str, environment: Mapping[str, str]) -> list[str]:
    """Names of the exporters of a signal; none where neither an exporter nor an endpoint is named."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    endpoint = environment.get(_ENDPOINT) or environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    named = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip() or ("otlp" if endpoint else "none")
    return [name for part in named.split(",") if (name := part.strip()) not in {"", "none"}]


def saved_headers(file: Path) -> dict[str, str]:
    """The variables with the collector's credentials that `orchestrate` left for this worker; none without a file."""
    try:
        return {str(name): str(value) for name, value in json.loads(file.read_text(encoding="utf-8")).items()}
    except FileNotFoundError:
        return {}


def header_values(text: str) -> list[str]:
    """The values in `key=value,key2=value2`, as they are written and as they are meant."""
    values = [value.strip() for pair in text.split(",") if (value := pair.partition("=")[2])]
    return [*values, *(unquote(value) for value in values if unquote(value) != value)]
