"""The diagnosis: for each finding facts that show it, and near twins that must not."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from baton.diagnosis import diagnose
from baton.run_facts import run_facts
from baton.severity import SEVERITIES

BEGIN = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
Line = dict[str, Any]


def line(kind: str, at: float = 0, **more: Any) -> Line:
    moment = (BEGIN + timedelta(seconds=at)).isoformat()
    return {"kind": kind, "at": moment, "seconds": 0.5, "agent": "executor-1", "role": "executor", **more}


def model(at: float, given: int, cached: int, out: int = 500, **more: Any) -> Line:
    known: Line = {"response": f"msg_{at}_{more.get('agent', '')}", "model": "m", "outcome": "tool_use"}
    known |= {"input_tokens": given, "cache_read_tokens": cached, "cache_write_tokens": given - cached}
    return line("model", at, output_tokens=out, **(known | more))


def tool(name: str, at: float, **more: Any) -> Line:
    return line("tool", at, tool=name, outcome="error" if more.get("error") else "ok", call=int(at), turn=1, **more)


def evidence(*lines: Line, **files: Any) -> dict[str, tuple[str, ...]]:
    """The evidence of each finding, by its id."""
    texts = {name.replace("__", "-") + ".json": json.dumps(value) for name, value in files.items()}
    text = "".join(json.dumps(one) + "\n" for one in lines)
    return {found.id: tuple(found.evidence) for found in diagnose(run_facts("a-task", texts | {"trace.jsonl": text}))}


def ids(*lines: Line, **files: Any) -> set[str]:
    return set(evidence(*lines, **files))


def agents(count: int, *, reread: int) -> list[Line]:
    """Agents that each read `reread` tokens anew and add little."""
    named = [f"executor-1~{number}" for number in range(1, count + 1)]
    return [model(100 * n + t, reread + 500 * t, t and reread, agent=name, turn=t) for n, name in enumerate(named)
            for t in range(3)]  # fmt: skip


def test_a_run_that_reads_everything_anew_explodes_and_a_lean_one_does_not() -> None:
    assert "cost-explosion" in ids(*agents(8, reread=20_000))
    assert "cost-explosion" not in ids(*agents(1, reread=60_000))
    assert "cost-explosion" not in ids(*agents(8, reread=500)), "too small to matter"


def test_cache_misses_name_their_cause() -> None:
    def prompts(**second: Any) -> list[Line]:
        return [model(at, 10_000, second.get("cached", 0) if at else 9_000, turn=at, **more(at, second))
                for at in (0, second.get("after", 10), 2 * second.get("after", 10))]  # fmt: skip

    def more(at: float, second: Line) -> Line:
        return {"cache_write_tokens": 0, "cache_read_tokens": 0} if second.get("off") else {}

    def finding(**second: Any) -> str:
        text = "".join(json.dumps(one) + "\n" for one in prompts(**second))
        found = [one for one in diagnose(run_facts("t", {"trace.jsonl": text})) if one.id == "cache-misses"]
        return found[0].finding if found else ""

    assert "the beginning of the prompt changed" in finding()
    assert "5 minutes passed" in finding(after=400)
    assert "nothing was put into it" in finding(off=True)
    assert finding(cached=9_500) == ""


def test_the_same_call_without_a_change_is_a_loop() -> None:
    same = [tool("bash", at, input="f") for at in (1, 2, 3)]
    assert "loop-calls" in ids(*same)
    between = [tool("bash", 1, input="f"), tool("edit", 2, input="a"), tool("bash", 3, input="f"),
               tool("edit", 4, input="b"), tool("bash", 5, input="f")]  # fmt: skip
    assert "loop-calls" not in ids(*between)
    assert "loop-calls" not in ids(*(tool("bash", at, input="f", agent=f"executor-{at}") for at in (1, 2, 3)))


def test_the_same_error_is_a_loop_and_different_ones_are_not() -> None:
    assert "loop-errors" in ids(*(tool("bash", at, input=str(at), error="e") for at in (1, 2, 3)))
    assert "loop-errors" not in ids(*(tool("bash", at, input=str(at), error=str(at)) for at in (1, 2, 3)))


def test_questions_that_the_manifest_answers_are_lost_context() -> None:
    assert "lost-context-questions" in ids(tool("ask_predecessor", 1, answered=True))
    assert "lost-context-questions" not in ids(tool("ask_predecessor", 1))


def test_files_that_every_successor_reads_are_lost_context() -> None:
    read = [tool("read", at, path="shared.py", agent=f"executor-1~{at}") for at in (2, 3, 4)]
    assert "lost-context-reading" in ids(*read)
    assert "lost-context-reading" not in ids(*read, tool("edit", 9, path="shared.py"))
    assert "lost-context-reading" not in ids(*(one | {"agent": f"executor-{n}"} for n, one in enumerate(read)))
    assert "lost-context-reading" in ids(*(tool("read", at, path="a.py") for at in (1, 2, 3, 4)))
    assert "lost-context-reading" not in ids(
        tool("read", 1, path="a.py"), tool("read", 2, path="a.py"), tool("edit", 3, path="a.py"),
        tool("read", 4, path="a.py"), tool("read", 5, path="a.py"),
    )  # fmt: skip


def test_state_conflicts_of_all_kinds() -> None:
    found = ids(
        line("merge", 1, step=2, outcome="conflict", paths=["a.py"]),
        line("foreign", 2, paths=["b.py"]),
        tool("write", 3, path="c.py", error="e", refused=True),
    )
    assert {"merge-conflicts", "foreign-changes", "ownership-refusals"} <= found
    assert not ids(line("merge", 1, step=2, outcome="merged"), tool("write", 3, path="c.py", error="e"))


def shards(*seconds: float) -> list[Line]:
    return [
        line(kind, at, agent=f"executor-1.{number}-x", step=1)
        for number, end in enumerate(seconds)
        for kind, at in (("started", 0), ("ended", end))
    ]


def test_a_shard_far_behind_its_siblings_is_a_straggler() -> None:
    assert "stragglers" in ids(*shards(100, 110, 120, 400))
    assert "stragglers" not in ids(*shards(100, 110, 120, 150))
    assert "stragglers" not in ids(*shards(1, 2, 3, 40)), "no time is lost"
    assert "stragglers" not in ids(*shards(100, 400)), "two say nothing"


def test_calls_that_stand_out() -> None:
    usual = [tool("bash", at, input=str(at), seconds=2) for at in range(1, 9)]
    assert "slow-calls" in ids(*usual, tool("bash", 500, input="x", seconds=300))
    assert "slow-calls" not in ids(*usual, tool("bash", 500, input="x", seconds=30))


MERGED = line("merge", 1, step=1, outcome="merged")
GATE = {"name": "tests", "kind": "test", "command": "x"}


def test_gates_that_never_ran() -> None:
    silent = {"quality_gates": [{"name": "tests", "status": "inconclusive", "detail": "no tests were collected"}]}
    passed = {"quality_gates": [{"name": "tests", "status": "passed"}]}
    base = [GATE | {"outcome": "passed"}]
    assert "gates-inconclusive" in ids(MERGED, integration__report=silent)
    assert "gates-not-run" in ids(MERGED, integration__report={"quality_gates": []}, baseline=base)
    assert evidence(MERGED, integration__report={"quality_gates": []})["no-gates"] == ("1 merge, 0 gates",)
    assert not ids(MERGED, integration__report=passed, baseline=base)
    assert not ids(MERGED, baseline=base), "the task has not ended"
    assert not ids(integration__report={"quality_gates": []}), "nothing was changed"


def test_a_finding_has_evidence_and_a_remedy_and_the_gravest_comes_first() -> None:
    lines = [MERGED | {"outcome": "conflict"}, tool("write", 3, path="c.py", error="e", refused=True)]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    found = diagnose(run_facts("t", {"trace.jsonl": text}))
    ranks = [SEVERITIES.index(one.severity) for one in found]
    assert ranks == sorted(ranks, reverse=True)
    assert len(found) == 2
    assert all(one.evidence and one.remedy for one in found)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["model", "tool", "started", "ended", "merge", "gate", "foreign"]),
                "at": st.integers(0, 10**6).map(lambda at: (BEGIN + timedelta(seconds=at)).isoformat()),
                "agent": st.sampled_from(["", "a", "a~2", "b"]),
                "seconds": st.floats(0, 1e5),
                "input_tokens": st.integers(0, 10**7),
                "cache_read_tokens": st.integers(0, 10**7),
                "response": st.sampled_from(["", "m1", "m2", "m3"]),
                "tool": st.sampled_from(["read", "write", "bash"]),
                "path": st.sampled_from(["", "a.py"]),
                "step": st.sampled_from([None, 1]),
            }
        ),
        max_size=30,
    )
)
def test_any_facts_can_be_diagnosed(lines: list[Line]) -> None:
    ids(*lines, integration__report={"quality_gates": []})


def told(*lines: Line) -> dict[str, Any]:
    text = "".join(json.dumps(one) + "\n" for one in lines)
    return {one.id: one for one in diagnose(run_facts("t", {"trace.jsonl": text}))}


def test_time_without_a_worker_is_told_once_however_many_agents_had_it() -> None:
    def turn(agent: str, killed: float, back: float) -> list[Line]:
        return [tool("read", killed, agent=agent), model(back, 10, 0, agent=agent, turn=1, attempt=2)]

    both = told(*turn("executor-1", 10, 20.5), *turn("executor-2", 12, 22.5), *turn("executor-3", 40, 47.5))
    found = both["worker-gone"]
    assert "nothing was told 2 times, 19 s of 38 s" in found.finding
    assert found.severity == "medium"
    assert found.evidence[0] == (
        "08:00:10 to 08:00:22 UTC, 12 s: executor-1 turn 1 (attempt 2), executor-2 turn 1 (attempt 2)"
    )
    assert "orchestrate logs" in found.remedy
    assert "orchestrate doctor" in found.remedy


def test_time_without_a_worker_is_no_finding_where_somebody_was_there() -> None:
    assert told(tool("read", 10), model(40, 10, 0, turn=1)) == {}, "slow, and never begun again"
    assert "worker-gone" not in told(tool("read", 10), model(13, 10, 0, turn=1, attempt=2)), "a moment"
    failed = model(10, 10, 0, response="", outcome="overloaded_error", turn=1)
    assert "worker-gone" not in told(failed, model(40, 10, 0, turn=1, attempt=2)), "the provider's doing"
    assert "worker-gone" in told(failed, model(40, 10, 0, turn=1, attempt=3)), "an attempt in between told nothing"


def test_calls_that_were_paid_and_lost_are_summed() -> None:
    good = model(10, 1000, 0, turn=1, cost_usd="0.9")
    killed = model(20, 1000, 0, turn=2, response="", outcome="killed", cost_usd="0.08", out=40)
    broken = model(30, 1000, 0, turn=2, response="", outcome="broken", cost_usd="0.02", attempt=2)
    found = told(good, killed, broken)["lost-calls"]
    assert "2 model calls paid and lost before the answer was whole: 0.1000 of 1.0000 USD" in found.finding
    assert found.evidence[0] == "executor-1 turn 2: killed, 0.0800 USD, 40 output tokens"
    assert found.severity == "medium"
    assert "lost-calls" not in told(good, killed | {"cost_usd": "0"}), "nothing was paid"
    assert "lost-calls" not in told(good, killed | {"outcome": "cancelled"}), "somebody wanted that"
    assert "lost-calls" not in told(good, killed | {"cost_usd": "0.001"}), "too little to matter"
