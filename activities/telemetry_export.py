"""Switches telemetry on by the standard `OTEL_*` variables; the only module that loads the OpenTelemetry SDK.

On means: an exporter or an OTLP endpoint is named, and `OTEL_SDK_DISABLED` is not true. The SDK's own default would
send to a collector on this host that nobody asked for. Endpoint, headers, sampler, batches and resource are read by it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.telemetry import WANTED, Exporting, context_of, delivered, switch_on
from activities.telemetry_wanted import CONTENT, exporters
from baton.telemetry_names import SERVICE

DELIVERY_SECONDS = 2.0
"""Whoever ended something waits so long until its spans are sent; what takes longer is sent later."""
REST_SECONDS = 30.0
"""A collector that was too slow is not waited for again before that."""
FAREWELL_SECONDS = 3.0
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}

logger = logging.getLogger("baton.telemetry")


class Telemetry:
    """Telemetry that is on, until `end`."""

    def __init__(
        self, environment: Mapping[str, str], headers: Mapping[str, str], secrets: Callable[[], Collection[str]]
    ) -> None:
        """`headers`: variables with credentials for the collector; they are in the environment only while the exporters
        are made. ValueError for an exporter that is not installed."""
        named = {"service.name": SERVICE} if not environment.get("OTEL_SERVICE_NAME") else {}
        if "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", ""):
            named = {}
        resource = Resource.create(named)
        before = {name: os.environ.get(name) for name in headers}
        os.environ.update(headers)
        try:
            self._traces = TracerProvider(resource=resource, id_generator=_ChosenIds())
            self._traces.sampler = _WholeTraces(self._traces.sampler)
            for exporter in _made("traces", environment):
                self._traces.add_span_processor(BatchSpanProcessor(exporter))
            readers = [_reader(exporter) for exporter in _made("metrics", environment)]
            self._metrics = MeterProvider(readers, resource=resource)
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
        trace.set_tracer_provider(self._traces)
        metrics.set_meter_provider(self._metrics)
        self._sender = ThreadPoolExecutor(1, "baton-telemetry")
        self._rests_until = 0.0
        content = environment.get(CONTENT, "").strip().lower() not in {"", "false", "no_content", "0"}
        switch_on(Exporting(self._deliver, content, secrets))
        self.delivery: Interceptor = Delivery()

    async def _deliver(self) -> None:
        if time.monotonic() < self._rests_until:
            return
        sending = asyncio.get_running_loop().run_in_executor(self._sender, self._traces.force_flush)
        try:
            await asyncio.wait_for(asyncio.shield(sending), DELIVERY_SECONDS)
        except TimeoutError:
            self._rests_until = time.monotonic() + REST_SECONDS
            logger.warning("the OpenTelemetry collector is slow or away; spans are sent later, or lost")

    async def end(self) -> None:
        """Send what is left, as far as that takes no longer than a few seconds."""
        switch_on(None)
        loop = asyncio.get_running_loop()
        # Not in the loop's own pool, whose end would wait for a collector that is away.
        await asyncio.wait([loop.run_in_executor(self._sender, self.flush)], timeout=FAREWELL_SECONDS)

    def flush(self) -> None:
        """Send what was told, however long the exporters try."""
        self._traces.force_flush()
        self._metrics.force_flush()


class Delivery(Interceptor):
    """No activity is over before its spans are sent: what Temporal knows to be done, nobody will tell again."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """As the SDK asks for it."""
        return _Delivering(next)


class _Delivering(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's own name
        try:
            return await super().execute_activity(input)
        finally:
            await delivered()


class _ChosenIds(RandomIdGenerator):
    """Ids that whoever tells a span has chosen."""

    def generate_trace_id(self) -> int:
        wanted = WANTED.get()
        return wanted.trace if wanted else super().generate_trace_id()

    def generate_span_id(self) -> int:
        wanted = WANTED.get()
        return wanted.span if wanted else super().generate_span_id()


class _WholeTraces(Sampler):
    """The configured sampler, asked as for a root, for parents are told last; or as for a child of the caller, whose
    decision is known."""

    def __init__(self, inner: Sampler) -> None:
        self._inner = inner

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        wanted = WANTED.get()
        parent = context_of(wanted.caller) if wanted and wanted.caller else Context()
        return self._inner.should_sample(parent, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"WholeTraces({self._inner.get_description()})"


def _made(signal: str, environment: Mapping[str, str]) -> list[Any]:
    """The exporters of a signal (`traces`, `metrics`), as far as it has any."""
    return [_exporter(signal, name, environment) for name in exporters(signal, environment)]


def _exporter(signal: str, name: str, environment: Mapping[str, str]) -> Any:
    if name == "otlp":
        common = environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
        protocol = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or common
        name = _PROTOCOLS.get(protocol, protocol)
    found = entry_points(group=f"opentelemetry_{signal}_exporter", name=name)
    if not found:
        raise ValueError(f"no OpenTelemetry exporter {name!r} for {signal} is installed")
    return next(iter(found)).load()()


def _reader(exporter: Any) -> MetricReader:
    return exporter if isinstance(exporter, MetricReader) else PeriodicExportingMetricReader(exporter)
