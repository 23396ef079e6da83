"""Tells OpenTelemetry what a task does: spans when they have ended, and metrics.

Only its API is used here, and nothing at all until `switch_on` was called (by `activities/telemetry_export.py`). No
span is ever open in memory: each is told whole, by the activity that knows its end, and Temporal runs that activity
again where it dies. With ids that follow from what a span is about (`baton/telemetry.py`) telling it again changes
nothing, and children may be sent long before their parent.
"""

import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from activities.task_folder import TaskFolder, UnknownTaskError
from baton import telemetry_names as names
from baton.pricing import Usage
from baton.printed_secrets import printed
from baton.telemetry import ROOT, Attributes, Key, Span, agent_key, cache_share, known, span_id, trace_id
from baton.traceparent import Caller, caller_of

FIRST_RUN = "telemetry/first-run"
"""Journal entry: the run that began the task. A resume has another, and still belongs to the same trace."""


@dataclass(frozen=True)
class Wanted:
    """Ids of the span that is being made, and the caller whose trace it is in, if that is not the task's own."""

    trace: int
    span: int
    caller: Caller | None = None


WANTED: ContextVar[Wanted | None] = ContextVar("baton_wanted_ids", default=None)
"""The exporter's id generator and its sampler take them."""


@dataclass(frozen=True)
class Exporting:
    """Telemetry that is on. `deliver` sends what was told; it never raises and never takes long. `content`: messages,
    arguments and results are told too, with `secrets` masked."""

    deliver: Callable[[], Awaitable[None]]
    content: bool = False
    secrets: Callable[[], Collection[str]] = tuple

    def clean(self, text: str) -> str:
        """A text as it may be told."""
        return printed(text, self.secrets())


@dataclass(frozen=True)
class Place:
    """Where in which task something happens. `ids`: what the ids of its spans are made from; `caller`: the span that
    the task was started in."""

    exporting: Exporting
    ids: int
    task: str
    agent: str = ""
    turn: int = 0
    asked: str = ""
    """Names a call beside the turns."""
    work: str = ""
    """The activity, of which run of a workflow: what another one does is done again."""
    caller: Caller | None = None

    @property
    def trace(self) -> int:
        """The trace: the caller's, else the task's own."""
        return self.caller.trace if self.caller else self.ids

    def span_id(self, key: Key) -> int:
        """The id of a span of this task: two tasks in one trace have none in common."""
        return span_id(self.ids, key)

    @property
    def around(self) -> Key:
        """The key of the span around what happens here."""
        return agent_key(self.agent) if self.agent else ROOT

    def attributes(self, operation: str) -> Attributes:
        """What every call here says of itself."""
        conversation = f"{self.task}/{self.agent}" if self.agent else ""
        return known(
            OPERATION=operation,
            TASK=self.task,
            AGENT_NAME=self.agent,
            CONVERSATION=conversation,
            TURN=self.turn or None,
            NAME=self.asked,
        )


_exporting: Exporting | None = None
_place: ContextVar[Place | None] = ContextVar("baton_telemetry_place", default=None)


def switch_on(exporting: Exporting | None) -> None:
    """From now on tell; None: no more."""
    global _exporting
    _exporting = exporting


async def delivered() -> None:
    """What was told so far is sent; nothing while telemetry is off."""
    if _exporting is not None:
        await _exporting.deliver()


def place_of(folder: TaskFolder, agent: str = "", turn: int = 0, work: str = "") -> Place | None:
    """The place of an agent, or of the task itself; None while telemetry is off or where the task has no record."""
    if _exporting is None:
        return None
    try:
        record = folder.record
    except UnknownTaskError:
        return None
    first = folder.store.entry(FIRST_RUN) or folder.store.enter(FIRST_RUN, record.run_id.encode())
    ids, caller = trace_id(record.task_id, first.decode()), caller_of(record.input.traceparent)
    return Place(_exporting, ids, record.task_id, agent, turn, work=work, caller=caller)


@contextmanager
def working(folder: TaskFolder, agent: str = "", turn: int = 0, work: str = "") -> Iterator[None]:
    """Calls that are told inside belong to this agent, or to the task itself."""
    token = _place.set(place_of(folder, agent, turn, work))
    try:
        yield
    finally:
        _place.reset(token)


@contextmanager
def asking(what: str) -> Iterator[None]:
    """A model call inside is no turn, but this."""
    place = _place.get()
    token = _place.set(replace(place, asked=what) if place is not None else None)
    try:
        yield
    finally:
        _place.reset(token)


def here() -> Place | None:
    """The place of the block around; None while telemetry is off."""
    return _place.get()


def tell(place: Place, around: Key | None, span: Span) -> None:
    """Tell a span that ended inside that of the key `around`; None: the span of the whole task."""
    token = WANTED.set(Wanted(place.trace, place.span_id(span.key), place.caller))
    try:
        told = trace.get_tracer(names.SCOPE).start_span(
            span.name,
            context=_inside(place, around),
            kind=SpanKind.CLIENT if span.is_request else SpanKind.INTERNAL,
            attributes=span.attributes,
            start_time=_nanoseconds(span.began),
            record_exception=False,
        )
    finally:
        WANTED.reset(token)
    for event in span.events:
        told.add_event(event.name, event.attributes, _nanoseconds(event.at))
    if span.error:
        told.set_attribute(names.ERROR_TYPE, span.error)
        told.set_status(StatusCode.ERROR, span.error)
    told.end(_nanoseconds(max(span.began, span.ended)))


def is_first(folder: TaskFolder, place: Place, what: Key) -> bool:
    """Whether this is to be measured now: what several attempts tell, also in several processes, is measured once."""
    own = uuid.uuid4().bytes
    return folder.store.enter(f"telemetry/measured/{place.span_id(what):016x}", own) == own


def measure(span: Span, operation: str, attributes: Attributes) -> None:
    """How long an operation took."""
    told = known(OPERATION=operation, PROVIDER_NAME=names.PROVIDER, ERROR_TYPE=span.error)
    _histogram(names.DURATION).record(span.seconds, told | attributes)


def measure_usage(usage: Usage, model: str, answered_by: str = "") -> None:
    """What one model call used. `answered_by`: the model that the response names."""
    of_model = known(OPERATION=names.CHAT, PROVIDER_NAME=names.PROVIDER, REQUEST_MODEL=model)
    of_model |= known(RESPONSE_MODEL=answered_by)
    tokens = _histogram(names.TOKEN_USAGE)
    tokens.record(usage.total_input_tokens, of_model | {names.TOKEN_TYPE: "input"})
    tokens.record(usage.output_tokens, of_model | {names.TOKEN_TYPE: "output"})
    _counter(names.COST_SPENT).add(float(usage.cost_usd), of_model)
    if (share := cache_share(usage)) is not None:
        _histogram(names.CACHE_RATIO).record(share, of_model)


def measure_wait(seconds: float, attributes: Attributes) -> None:
    """How long somebody or something was waited for."""
    _histogram(names.WAIT_DURATION).record(seconds, attributes)


def count(name: str, attributes: Attributes) -> None:
    """One more."""
    _counter(name).add(1, attributes)


def _inside(place: Place, around: Key | None) -> Context:
    if around is not None:
        return context_of(Caller(place.trace, place.span_id(around), sampled=True))
    return context_of(place.caller) if place.caller is not None else Context()


def context_of(caller: Caller) -> Context:
    """What is told inside belongs to this span of somebody else, or of ours that is told later."""
    flags = TraceFlags(TraceFlags.SAMPLED if caller.sampled else TraceFlags.DEFAULT)
    parent = SpanContext(caller.trace, caller.span, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(parent), Context())


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1_000


@cache
def _histogram(name: str) -> metrics.Histogram:
    told = names.METRICS[name]
    return metrics.get_meter(names.SCOPE).create_histogram(
        name, told.unit, told.about, explicit_bucket_boundaries_advisory=told.boundaries
    )


@cache
def _counter(name: str) -> metrics.Counter:
    return metrics.get_meter(names.SCOPE).create_counter(name, names.METRICS[name].unit, names.METRICS[name].about)
