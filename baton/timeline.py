"""`timeline.html`: the run of a task as one self-contained page, agents as rows and turns as blocks.

Everything that came from a task, a plan, a model or a repository is escaped; the page may load nothing and reach no
network (its own content policy says so).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from html import escape
from itertools import accumulate

from baton.durations import format_duration
from baton.models import Stored
from baton.run_facts import RunFacts
from baton.timeline_rows import Block, Row, Section, sections, span
from baton.trace import TraceLine
from baton.wording import counted, number

TIMELINE = "timeline.html"
_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
_MOST_TICKS = 10
_CURVE_POINTS = 600
_LEGEND = (
    ("model", "model call"),
    ("tool", "tools"),
    ("bad", "error or conflict"),
    ("gate", "gate"),
    ("merge", "merge"),
    ("wait", "waits for a person"),
    ("held", "waits for slot, merge or provider"),
    ("gap", "nothing told"),
)


class Frame(Stored):
    """The files of `baton/timeline_page`; placeholders of the page are written `{{NAME}}`."""

    page: str
    style: str
    script: str


FRAME_FILES = {"page": "page.html", "style": "style.css", "script": "script.js"}


def render(facts: RunFacts, frame: Frame) -> str:
    """The page."""
    begin, end = span(facts)
    scale = _Scale(begin, end)
    title = _text(facts.status.task or facts.task_id)
    body = "".join(_section(section, scale) for section in sections(facts))
    page = {
        "TITLE": title,
        "STYLE": frame.style,
        "SCRIPT": frame.script,
        "HEAD": _head(facts, title, end - begin),
        "LEGEND": "".join(
            f'<button type="button" data-kind="{kind}" aria-pressed="true"><i class="{kind}"></i>{told}</button>'
            for kind, told in _LEGEND
        ),
        "SECONDS": f"{scale.seconds:.3f}",
        "TICKS": _ticks(scale),
        "GRID": _grid(scale),
        "ROWS": body or '<p class="empty">Nothing was traced.</p>',
        "CURVE": _curve(facts.trace.of("model"), scale),
        "NOTE": _note(facts),
    }
    parts = frame.page.split("{{")
    # Each placeholder is filled once; what is filled in is never looked at again.
    filled = [parts[0]]
    for part in parts[1:]:
        name, _, rest = part.partition("}}")
        filled += [page[name], rest]
    return "".join(filled)


class _Scale:
    """Places on the axis of time, in percent."""

    def __init__(self, begin: datetime, end: datetime) -> None:
        self.begin = begin
        self.seconds = max((end - begin).total_seconds(), 1.0)

    def at(self, moment: datetime) -> float:
        return round(min(max(100 * (moment - self.begin).total_seconds() / self.seconds, 0.0), 100.0), 3)

    @property
    def ticks(self) -> Sequence[int]:
        step = next((tick for tick in _TICKS if self.seconds / tick <= _MOST_TICKS), None)
        step = step or _TICKS[-1] * (1 + int(self.seconds / _TICKS[-1] / _MOST_TICKS))
        return range(0, int(self.seconds) + 1, step)


def _head(facts: RunFacts, title: str, duration: timedelta) -> str:
    status, usage = facts.status, facts.status.usage
    lines = facts.trace.of("model")
    output = usage.output_tokens or sum(line.output_tokens for line in lines)
    given = usage.total_input_tokens or sum(line.input_tokens for line in lines)
    cached = usage.cache_read_tokens or sum(line.cache_read_tokens for line in lines)
    cost = usage.cost_usd or sum((line.cost_usd for line in lines), Decimal(0))
    agents = status.agents or len({line.agent for line in facts.trace.lines if line.agent})
    items = status.items
    told = [
        ("time", _duration(duration)),
        ("items", f"{items.done} of {items.total}" if items.total else "–"),
        ("agents", number(agents)),
        ("handoffs", number(status.handoffs or len(facts.handoffs))),
        ("calls", number(usage.model_calls or len(lines))),
        ("output", f"{number(output)} tokens"),
        ("input", f"{number(given)} tokens, {100 * cached // given if given else 0} % cached"),
        ("cost", f"{cost:.2f} USD"),
    ]
    word = _text(str(status.state) if facts.reported else facts.broken_off or "not ended")
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in told)
    return (
        f'<h1><span title="{title}">{title}</span> <b class="state {word.replace(" ", "-")}">{word}</b></h1>'
        f'<p class="id">{_text(facts.task_id)}{_started(facts)}</p><dl>{cells}</dl>'
    )


def _started(facts: RunFacts) -> str:
    started = facts.status.started_at
    return f" · started {started:%Y-%m-%d %H:%M:%S} UTC" if started else ""


def _section(section: Section, scale: _Scale) -> str:
    numbers = "".join(f"<span>{value}</span>" for value in section.numbers)
    title = (
        f'<div class="section"><div class="label" title="{_text(section.title)}">{_text(section.title)}</div>'
        f'<div class="lane"></div><div class="numbers">{numbers}</div></div>'
        if section.title
        else ""
    )
    return f"<section>{title}{''.join(_row(row, scale) for row in section.rows)}</section>"


def _row(row: Row, scale: _Scale) -> str:
    bar = ""
    if row.begin is not None and row.end is not None:
        left, right = scale.at(row.begin), scale.at(row.end)
        bar = f'<i class="life" style="left:{left}%;width:{max(right - left, 0.1):.3f}%"></i>'
    blocks = "".join(_block(block, scale) for block in row.blocks)
    ending = ""
    if row.ending and row.end is not None:
        place = scale.at(row.end)
        before = scale.at(row.begin or row.end)
        side = f"right:{100 - before:.3f}%" if place > 80 else f"left:{place}%"
        ending = f'<span class="ending {"before" if place > 80 else ""}" style="{side}">{_text(row.ending)}</span>'
    numbers = "".join(f"<span>{_text(value)}</span>" for value in row.numbers)
    label, hint = _text(row.label), _text(row.hint or row.label)
    return (
        f'<div class="row"><div class="label {row.kind}" title="{hint}">{label}</div>'
        f'<div class="lane">{bar}{blocks}{ending}</div><div class="numbers">{numbers}</div></div>'
    )


def _block(block: Block, scale: _Scale) -> str:
    left, right = scale.at(block.begin), scale.at(block.end)
    kind = f"{block.kind} bad" if block.bad else block.kind
    return f'<i class="{kind}" style="left:{left}%;width:{right - left:.3f}%" title="{_text(block.hint)}"></i>'


def _ticks(scale: _Scale) -> str:
    return "".join(
        f'<span style="left:{100 * tick / scale.seconds:.3f}%">{_duration(timedelta(seconds=tick))}</span>'
        for tick in scale.ticks
    )


def _grid(scale: _Scale) -> str:
    return "".join(f'<i style="left:{100 * tick / scale.seconds:.3f}%"></i>' for tick in scale.ticks)


def _curve(lines: Sequence[TraceLine], scale: _Scale) -> str:
    """Cost over time as a rising line."""
    costs = list(accumulate(line.cost_usd for line in lines))
    if not costs or not costs[-1]:
        return ""
    every = max(1, len(lines) // _CURVE_POINTS)
    points, height = ["0,40"], 40.0
    for index in (*range(0, len(lines), every), len(lines) - 1):
        left = 10 * scale.at(lines[index].at)
        points.append(f"{left:.1f},{height:.1f}")
        height = 40 - 38 * float(costs[index] / costs[-1])
        points.append(f"{left:.1f},{height:.1f}")
    points += [f"1000,{height:.1f}", "1000,40"]
    return (
        '<div class="row curve"><div class="label">cost</div><div class="lane">'
        f'<svg viewBox="0 0 1000 40" preserveAspectRatio="none"><polygon points="{" ".join(points)}"/></svg></div>'
        f'<div class="numbers"><span></span><span></span><span>{costs[-1]:.2f}</span></div></div>'
    )


def _note(facts: RunFacts) -> str:
    notes = []
    if facts.trace.unreadable:
        notes.append(f"{counted(facts.trace.unreadable, 'line')} of the trace could not be read.")
    if facts.unreadable:
        notes.append(f"Could not be read: {', '.join(facts.unreadable)}.")
    if facts.broken_off:
        notes.append(f"The task was broken off ({facts.broken_off}): there is no report, and lines may be missing.")
    elif not facts.reported:
        notes.append("The task has not ended: this is what was known when the page was made.")
    return _text(" ".join(notes))


def _duration(value: timedelta) -> str:
    return format_duration(value) if value >= timedelta(minutes=1) else f"{value.total_seconds():.0f}s"


def _text(text: str) -> str:
    """Escaped, on one line, without what cannot be shown."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return escape(text)
