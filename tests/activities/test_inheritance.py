"""Knowledge for the next agent within its limit: all of it, else a summary that is paid once, else the essentials."""

import json

import pytest
from agents_bench import AT, Agent, Answer, Bench, MakeBench, call, does, says, texts

from activities.inheritance import KNOWLEDGE_LIMIT_TOKENS
from baton import trace
from baton.conversation import estimated_tokens
from baton.knowledge import Decision, Knowledge, entries
from baton.messages import TurnLimits
from emulator.reply import Cut, HttpError, Reply, ToolUse

FEW = Knowledge().with_entries(entries("executor-1", AT, [Decision(decision="use f-strings")], ["small steps"]))
MANY = Knowledge().with_entries(
    entries("executor-1", AT, [Decision(decision=f"decision {number} " + "long words " * 6) for number in range(400)])
)
SUMMARY = "Everything is an f-string now."
SUMMARISES = does(call("submit_summary", summary=SUMMARY))


async def opened(make_bench: MakeBench, knowledge: Knowledge, *replies: Answer) -> tuple[Bench, Agent]:
    bench = await make_bench(*replies)
    return bench, await bench.start(bench.assignment(knowledge=knowledge))


def lines(bench: Bench, agent: Agent) -> list[str]:
    """The knowledge in the agent's first message."""
    text = texts(bench.folder.conversations.load(agent.opening_head).opening.content)
    found: list[str] = json.loads(text.partition("<assignment>")[2].partition("</assignment>")[0])["knowledge"]
    return found


async def test_what_fits_is_given_whole(make_bench: MakeBench) -> None:
    bench, agent = await opened(make_bench, FEW)
    assert lines(bench, agent) == ["decision: use f-strings — executor-1", "pattern: small steps — executor-1"]
    assert bench.statuses() == []


async def test_what_does_not_fit_is_summarised_once(make_bench: MakeBench) -> None:
    bench, agent = await opened(make_bench, MANY, SUMMARISES)
    first, *kept = lines(bench, agent)
    assert first == f"summary of {400 - len(kept)} older entries: {SUMMARY}"
    assert kept[-1].startswith("decision: decision 399 ")
    assert estimated_tokens("\n".join([first, *kept])) <= KNOWLEDGE_LIMIT_TOKENS
    assert agent.state.extra_usage.model_calls == 1
    assert agent.state.extra_usage.cost_usd > 0
    bench.restart()
    sibling = await bench.start(bench.assignment(knowledge=MANY, workspace="step-3"))
    assert lines(bench, sibling) == [first, *kept]
    assert sibling.state.extra_usage.model_calls == 0
    assert bench.statuses() == [200]
    assert (bench.server.bodies[0] or {})["model"] == "claude-haiku-5-5"


@pytest.mark.parametrize(
    ("reply", "paid"),
    [
        (Reply(fault=HttpError(529, "overloaded_error")), 0),
        (Reply(fault=HttpError(400, "invalid_request_error")), 0),
        (Reply([ToolUse("submit_summary", {"summary": SUMMARY})], fault=Cut(2)), 1),
        (says(SUMMARY), 1),
        (does(call("submit_summary", summary="  ")), 1),
        (does(call("submit_summary", text=SUMMARY)), 1),
        (does(call("submit_summary", summary="word " * 1_300)), 1),
        (does(call("submit_summary", summary="word " * 9_000)), 1),
        (Reply([ToolUse("submit_summary", '{"summary": "half a')]), 1),
        (does(call("read", file_path="src/a.py")), 1),
    ],
    ids=[
        "overloaded",
        "refused",
        "cut",
        "prose",
        "blank",
        "wrong field",
        "too long",
        "cut off",
        "broken",
        "other tool",
    ],
)
async def test_without_a_summary_the_essentials_are_given(make_bench: MakeBench, reply: Reply, paid: int) -> None:
    bench, agent = await opened(make_bench, MANY, reply)
    found = lines(bench, agent)
    (told,) = [line for line in found if "more entries are left out here" in line]
    short = found[: found.index(told)]
    kept = found[found.index(told) + 1 :]
    assert told == f"({400 - len(short) - len(kept)} more entries are left out here; all are in knowledge.json)"
    assert len(short) > 5
    assert not any(SUMMARY in line or "half a" in line for line in found)
    assert estimated_tokens("\n".join(found)) <= KNOWLEDGE_LIMIT_TOKENS
    assert agent.state.extra_usage.model_calls == paid


async def test_a_useless_summary_is_not_asked_for_again(make_bench: MakeBench) -> None:
    bench, agent = await opened(make_bench, MANY, does(call("submit_summary", summary="word " * 1_300)))
    sibling = await bench.start(bench.assignment(knowledge=MANY, workspace="step-3"))
    assert lines(bench, sibling) == lines(bench, agent)
    assert bench.statuses() == [200]


async def test_a_failed_summary_is_asked_for_again(make_bench: MakeBench) -> None:
    bench, _ = await opened(make_bench, MANY, Reply(fault=HttpError(529, "overloaded_error")), SUMMARISES)
    sibling = await bench.start(bench.assignment(knowledge=MANY, workspace="step-3"))
    assert SUMMARY in lines(bench, sibling)[0]
    told = trace.parse((bench.folder.artifacts / trace.NAME).read_text())
    assert {line.name for line in told.of("wait")} == {"quota"}


async def test_no_summary_is_paid_for_where_nothing_is_left(make_bench: MakeBench) -> None:
    bench = await make_bench(SUMMARISES)
    agent = await bench.start(bench.assignment(knowledge=MANY, allowance=TurnLimits(model_calls=0)))
    assert "decision: decision 399 " in lines(bench, agent)[-1]
    assert (bench.statuses(), agent.state.extra_usage.model_calls) == ([], 0)
