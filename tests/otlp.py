"""A real OTLP receiver (HTTP, protobuf) for tests: it keeps what a worker exports."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class Measured:
    """A metric: its unit and kind, and the newest value (a sum, or how many values) by its attributes as pairs."""

    unit: str
    kind: str | None
    points: dict[tuple[tuple[str, Any], ...], float] = field(default_factory=dict)

    def take(self, metric: Metric) -> None:
        """The points of one export."""
        for point in (metric.histogram if self.kind == "histogram" else metric.sum).data_points:
            value = point.sum if self.kind == "histogram" else point.as_double or point.as_int
            self.points[tuple(sorted(attributes(point.attributes).items()))] = float(value)

    def of(self, name: str) -> set[Any]:
        """The values of one attribute."""
        return {value for point in self.points for key, value in point if key == name}


@dataclass(frozen=True)
class Collected:
    """What arrived. `raw`: the bodies as they came, uncompressed; `headers`: those of each request."""

    url: str
    spans: list[Span] = field(default_factory=list)
    metrics: dict[str, "Measured"] = field(default_factory=dict)
    raw: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def take(self, path: str, body: bytes) -> None:
        self.raw.append(body)
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans.extend(span for scope in resource.scope_spans for span in scope.spans)
        elif path == "/v1/metrics":
            for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (metric for scope in of_resource.scope_metrics for metric in scope.metrics):
                    self.metrics.setdefault(metric.name, Measured(metric.unit, metric.WhichOneof("data"))).take(metric)

    def events(self) -> set[str]:
        """The names of all events."""
        return {event.name for span in self.spans for event in span.events}


def attributes(pairs: Any) -> dict[str, Any]:
    """Attributes of a span or an event by name."""
    return {pair.key: _value(pair.value) for pair in pairs if isinstance(pair, KeyValue)}


@contextmanager
def receiver() -> Iterator[Collected]:
    """A collector on a free port, for the time of the block."""
    found: list[Collected] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found[0].headers.append({name.lower(): value for name, value in self.headers.items()})
            found[0].take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.append(Collected(url=f"http://127.0.0.1:{server.server_port}"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(entry) for entry in value.array_value.values)
    return getattr(value, kind) if kind else None
