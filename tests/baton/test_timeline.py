"""The trace read back whatever a kill left of it, and the page that is drawn from it."""

import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from baton import trace
from baton.run_facts import run_facts
from baton.timeline import FRAME_FILES, Frame, render
from baton.timeline_rows import sections, span

BEGIN = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
_PAGE = files("baton.timeline_page")
FRAME = Frame(**{part: _PAGE.joinpath(name).read_text(encoding="utf-8") for part, name in FRAME_FILES.items()})
EVIL = "</script><script>alert(1)</script>\"'\x00{{STYLE}}"


def line(kind: str, at: float, **more: Any) -> str:
    moment = (BEGIN + timedelta(seconds=at)).isoformat()
    return json.dumps({"kind": kind, "at": moment, "seconds": 1.0, **more}) + "\n"


def model(at: float, agent: str = "a", turn: int = 1, **more: Any) -> str:
    known = {"model": "m", "outcome": "tool_use", "output_tokens": 10, "cost_usd": "0.1", "response": f"msg_{at}"}
    return line("model", at, agent=agent, turn=turn, **known | more)


class Page(HTMLParser):
    """What a browser sees: text, hints, and anything that would be loaded or run."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.blocks: list[tuple[str, str]] = []
        self.scripts = 0
        self.loads: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.scripts += tag == "script"
        self.loads += [str(given[name]) for name in ("src", "href") if name in given]
        if tag == "i" and given.get("title"):
            self.blocks.append((str(given["class"]), str(given["title"])))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_what_is_told_twice_counts_once_and_the_last_time() -> None:
    first = line("tool", 1, agent="a", turn=1, call=1, tool="bash", attempt=1)
    again = line("tool", 5, agent="a", turn=1, call=1, tool="bash", attempt=2)
    read = trace.parse(model(0) + model(0) + first + again)
    assert [(found.kind, found.attempt) for found in read.lines] == [("model", 1), ("tool", 2)]


def test_lines_are_in_order_of_time_and_broken_ones_are_counted() -> None:
    text = model(9) + '{"kind": "model", "at": "20' + "\n" + model(3) + "[]\n\n" + line("unknown", 1)
    read = trace.parse(text)
    assert [found.at for found in read.lines] == [BEGIN + timedelta(seconds=3), BEGIN + timedelta(seconds=9)]
    assert read.unreadable == 3


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    trace.parse(text)
    trace.unended(text)


@given(st.lists(st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text())), max_size=4))
def test_any_values_can_be_read(values: list[object]) -> None:
    text = json.dumps(dict(zip(("kind", "agent", "at", "outcome"), values, strict=False)))
    trace.parse(text)
    trace.unended(text)


def test_who_began_and_came_to_no_end_of_its_own_is_known_by_its_last_line() -> None:
    text = (
        line("started", 1, agent="a", role="executor", step=1)
        + line("started", 1, agent="b", role="executor", step=2)
        + line("started", 1, agent="c", role="reviewer")
        + model(2, "a")
        + model(3, "b")
        + model(3, "router")
        + line("ended", 4, agent="a", outcome="subtask_complete")
        + line("wait", 5, agent="b", name="quota")
        + line("ended", 6, agent="c", outcome="lost")
        + '{"kind": "model", "agent'
    )
    assert [(last.agent, last.kind, (last.at - BEGIN).seconds) for last in trace.unended(text)] == [
        ("b", "model", 3),
        ("c", "ended", 6),
    ]
    # A reset has an agent go on after its end.
    assert {last.agent for last in trace.unended(text + "\n" + model(7, "a"))} == {"a", "b", "c"}


def facts(text: str, **more: str) -> Any:
    return run_facts("a-task", {"trace.jsonl": text, **more})


def test_agents_turns_handoffs_merges_gates_and_waits_are_drawn() -> None:
    waits = [
        {"kind": "pause", "since": BEGIN.isoformat(), "until": "2026-11-30T08:00:01Z"},
        {"kind": "approval", "phase": "planning", "since": BEGIN.isoformat(), "until": "2026-11-30T08:00:02Z"},
    ]
    state = json.dumps({"status": {"task": "Do it", "state": "done", "waits": waits}})
    text = (
        line("started", 1, agent="executor-1-x", role="executor", step=1)
        + model(3, "executor-1-x")
        + line("tool", 4, agent="executor-1-x", turn=1, call=1, tool="edit", path="a.py", outcome="error")
        + line("ended", 5, agent="executor-1-x", step=1, outcome="output_limit", successor="executor-1-x~2")
        + model(7, "executor-1-x~2", outcome="overloaded_error", status=529)
        + line("merge", 8, step=1, outcome="conflict", paths=["a.py"])
        + line("gate", 9, name="tests", workspace="result", outcome="passed")
    )
    page = Page(render(facts(text, **{"state.json": state, "integration-report.json": '{"quality_gates": []}'}), FRAME))
    drawn = dict(page.blocks)
    assert set(drawn) == {"model", "model bad", "tool bad", "merge bad", "gate", "wait"}
    assert "edit a.py (error)" in drawn["tool bad"]
    assert "overloaded_error, HTTP 529" in drawn["model bad"]
    assert "a.py" in drawn["merge bad"]
    assert drawn["wait"].startswith("waited for a person: approval planning")
    assert "paused by a person, " in str(page.blocks)
    told = " ".join(page.text)
    assert "→ ~2 output limit" in told
    assert "0.20 USD" in told
    assert "Do it" in told


def test_a_question_that_is_open_is_drawn_until_the_last_moment_that_is_known() -> None:
    item = {"id": "approval-1", "kind": "approval", "question": "Is the plan right?", "choices": ["approve"]}
    state = json.dumps({"status": {"state": "waiting", "attention": [item | {"since": "2026-11-30T08:00:02Z"}]}})
    known = facts(model(1, "a"), **{"state.json": state})
    seen = known.model_copy(update={"seen_at": BEGIN + timedelta(hours=2)})
    assert span(seen)[1] == BEGIN + timedelta(hours=2)
    drawn = dict(Page(render(seen, FRAME)).blocks)
    assert drawn["wait"].startswith("waits for a person: approval: Is the plan right?")


def test_all_that_ever_waited_for_a_person_is_drawn_once_and_in_order() -> None:
    """The status knows the last hundred, and what is open; the trace knows all but what came after it."""

    def moment(number: int) -> str:
        return (BEGIN + timedelta(seconds=10 * number)).isoformat()

    told = "".join(
        line("attention", 10 * n + 1, name="question", step=n, phase="", asked=moment(n)) for n in reversed(range(140))
    )
    waits = [
        {
            "kind": "question",
            "step": n,
            "since": moment(n),
            "until": (BEGIN + timedelta(seconds=10 * n + 1)).isoformat(),
        }
        for n in range(50, 150)
    ]
    item = {"id": "conflict-1", "kind": "conflict", "question": "Whose?", "choices": ["a"], "since": moment(150)}
    paused = moment(151)
    state = json.dumps({"status": {"waits": waits, "attention": [item], "paused": True, "paused_since": paused}})
    known = facts(told + told, **{"state.json": state})
    (section,) = sections(known)
    (row,) = section.rows
    begins = [block.begin for block in row.blocks]
    assert row.label == "waits"
    assert begins == [BEGIN + timedelta(seconds=10 * number) for number in range(152)]
    assert [block.hint.partition(",")[0] for block in row.blocks[-3:]] == [
        "waited for a person: question ",
        "waits for a person: conflict: Whose?",
        "paused by a person",
    ]


def test_a_question_that_was_open_when_its_task_was_broken_off_ends_with_it() -> None:
    item = {"id": "conflict-1", "kind": "conflict", "question": "Whose?", "choices": ["a"], "since": BEGIN.isoformat()}
    state = json.dumps({"status": {"attention": [item]}})
    text = line("attention", 5, name="conflict", asked=BEGIN.isoformat(), outcome="open") + line(
        "closed", 9, outcome="x"
    )
    (section,) = sections(facts(text, **{"state.json": state}))
    (block,) = section.rows[0].blocks
    assert (block.hint, block.end) == ("waits for a person: conflict: Whose?", BEGIN + timedelta(seconds=5))


def rows(page: str) -> list[str]:
    """The labels of rows and sections from top to bottom."""
    return [text for text in re.findall(r'<div class="label[^>]*>([^<]*)</div>', page) if text]


def test_steps_stand_in_the_order_of_the_plan_and_successors_below_their_chain() -> None:
    text = "".join(
        line("started", at, agent=agent, role=role, step=step, model="m") + model(at + 1, agent, role=role)
        for at, agent, role, step in [
            (1, "planner", "planner", None),
            (5, "executor-2-x", "executor", 2),
            (6, "executor-1.2-x", "executor", 1),
            (6.5, "executor-1.1-x", "executor", 1),
            (20, "executor-1.1-x~2", "executor", 1),
            (15, "executor-1.2-x~2", "executor", 1),
            (40, "integrator", "integrator", None),
        ]
    )
    text += line("wait", 4, agent="executor-1.2-x", step=1, name="slot", seconds=3)
    steps = [{"step": n, "agent_type": "x", "description": f"do {n}"} for n in (1, 2)]
    html = render(facts(text, **{"plan.json": json.dumps({"plan": steps})}), FRAME)
    assert rows(html) == [
        "planner",
        "1. x: do 1",
        "executor-1.2-x",
        "~2",
        "executor-1.1-x",
        "~2",
        "2. x: do 2",
        "executor-2-x",
        "beside the steps",
        "integrator",
        "cost",
    ]
    assert (
        "<span>4</span><span>40</span><span>0.40</span>" in html.partition("1. x: do 1")[2].partition("</section>")[0]
    )


def test_waits_commands_and_the_gap_of_a_kill_are_drawn() -> None:
    text = (
        line("wait", 3, agent="a", step=1, name="slot", seconds=2)
        + model(5)
        + line("tool", 6, agent="a", turn=1, call=1, tool="edit", attempt=1)
        + line("tool", 20, agent="a", turn=1, call=1, tool="edit", attempt=2)
        + line("tool", 21, agent="a", turn=1, call=2, tool="edit", attempt=2)
        + model(25, turn=2, attempt=1)
        + model(26, turn=2, name="question to the predecessor", response="q")
        + line("wait", 30, step=2, name="merge_queue", seconds=2)
        + line("command", 40, agent="run-3", role="run", step=3, calls=7, outcome="failed", seconds=5)
    )
    page = Page(render(facts(text), FRAME))
    hints = [hint for kind, hint in page.blocks if kind == "held"]
    assert hints == ["step 2 waited for its turn to be merged, 2.0 s", "waited for a slot, 2.0 s"]
    (gap,) = [hint for kind, hint in page.blocks if kind == "gap"]
    assert gap.startswith("nothing told for 14.0 s")
    assert ("tool bad", "7 commands: failed, 5.0 s") in page.blocks
    assert any(hint.startswith("question to the predecessor: m") for _, hint in page.blocks)
    assert trace.parse(text).lines[2].turn == 1


def test_a_killed_call_is_drawn_when_it_is_told_and_hides_no_gap() -> None:
    text = (
        line("started", 1, agent="executor-1-x", role="executor", step=1)
        + model(9, "executor-1-x", outcome="killed", turn=1, seconds=0)
        + model(12, "executor-1-x", turn=1, attempt=2, seconds=2)
    )
    page = Page(render(facts(text), FRAME))
    (gap,) = [hint for kind, hint in page.blocks if kind == "gap"]
    assert gap.startswith("nothing told for 9.0 s")
    (killed,) = [hint for kind, hint in page.blocks if kind == "model bad"]
    assert "killed" in killed


def test_a_task_that_was_broken_off_says_how() -> None:
    ended = model(1) + line("closed", 2, name="run", outcome="terminated")
    page = " ".join(Page(render(facts(ended), FRAME)).text)
    assert "terminated" in page
    assert "broken off (terminated)" in page
    resumed = ended + line("started", 9, agent="b", role="executor", step=1)
    assert "not ended" in " ".join(Page(render(facts(resumed), FRAME)).text)


def test_nothing_of_a_task_becomes_code_and_nothing_is_loaded() -> None:
    state = json.dumps({"status": {"task": EVIL, "state": "partial"}})
    text = model(1, EVIL) + line("tool", 2, agent=EVIL, tool=EVIL, path=EVIL, call=1) + line("gate", 3, name=EVIL)
    html = render(facts(text, **{"state.json": state}), FRAME)
    page = Page(html)
    assert page.scripts == 1
    assert page.loads == []
    assert "http" not in html.replace("http-equiv", "")
    assert html.count(FRAME.style) == 1


@given(st.lists(st.tuples(st.floats(0, 1e7), st.sampled_from(["a", "a~2", "b"])), max_size=20))
def test_every_block_lies_on_the_page(calls: list[tuple[float, str]]) -> None:
    html = render(facts("".join(model(at, agent) for at, agent in calls)), FRAME)
    assert "nan" not in html
    assert len(Page(html).blocks) == len({at for at, _ in calls})


def test_a_task_of_which_nothing_is_known_has_a_page_too() -> None:
    page = " ".join(Page(render(run_facts("a-task", {"state.json": "{", "plan.json": "[]"}), FRAME)).text)
    assert "Nothing was traced." in page
    assert "Could not be read: state.json, plan.json." in page
