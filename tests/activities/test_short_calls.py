"""Calls beside the turns: paid once by whoever asks first, told in trace and spans also when nobody can read them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents_bench import Bench, MakeBench, call, does, make_source, says
from test_turn_kills import DyingStore, Killed

from activities.call_telemetry import model_called
from activities.model import ModelError, ModelRequest, Progress
from activities.pulse import pulse
from activities.routing import Routing
from activities.short_calls import Answered, ShortCall, asked_once, short_request
from activities.synthesizing import Synthesizing
from activities.trace import Teller
from baton import trace
from baton.conversation import Response
from baton.messages import StepResult, TaskRef
from baton.pricing import Usage
from baton.routing import Routed
from baton.states import StepStatusWord, TaskState
from baton.synthesis import ATTEMPTS, Synthesis, SynthesisFacts
from emulator.reply import Cut, HttpError, Reply, Text

ROUTES = does(call("submit_route", mode="parallel", confidence=0.9, reason="modules"))
FACTS = SynthesisFacts(
    task_id="bench-task",
    task="t",
    state=TaskState.DONE,
    results=tuple(StepResult(step=number, status=StepStatusWord.OK, summary="s") for number in (1, 2)),
)


def told(bench: Bench) -> list[trace.TraceLine]:
    """The model calls in the trace; each line as it was written, so that one told twice is seen."""
    path = bench.folder.artifacts / trace.NAME
    rows = path.read_text().splitlines() if path.exists() else []
    found = [trace.parse(row).lines[0] for row in rows]
    return [line for line in found if line.kind == "model"]


async def in_attempt(
    bench: Bench, work: Callable[..., Awaitable[Any]], *given: Any, run: str = "run", number: int = 1, **info: Any
) -> Any:
    environment = bench.environment(run, number)
    environment.info = replace(environment.info, **info)
    return await environment.run(work, *given)


def question(bench: Bench) -> Callable[[], Awaitable[Answered]]:
    """One short call, as an activity makes it."""
    folder, model = bench.folder, bench.model
    request = short_request(folder, "Well?", asker="router", tools_of="router", prompt_name="router")

    async def ask() -> Answered:
        async with pulse("choosing") as beat:
            return await asked_once(
                folder, model, ShortCall("a question", Teller("router", "router", 1), request), beat
            )

    return ask


async def route(bench: Bench, number: int = 1, run: str = "run") -> Routed:
    found: Routed = await in_attempt(
        bench, Routing(bench.tasks, bench.model).route, TaskRef(task_id="bench-task"), run=run, number=number
    )
    return found


async def overlapping(bench: Bench, first: Callable[[], Awaitable[Any]], second: Callable[[], Awaitable[Any]]) -> Any:
    """The first attempt still lives when the second begins, in another process."""
    one = asyncio.create_task(first())
    await asyncio.sleep(0.05)
    bench.restart()
    return await asyncio.gather(one, asyncio.create_task(second()))


@pytest.fixture
def chats(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What became of each call that was told as a span."""
    found: list[str] = []

    def watched(request: Any, result: Any, began: Any) -> None:
        found.append(result if isinstance(result, str) else result.stop_reason)
        model_called(request, result, began)

    monkeypatch.setattr("activities.model.model_called", watched)
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository with too many files for facts to decide."""
    return make_source(tmp_path / "source", {f"src/{name}.py": "A = 1\n" for name in "abcdefgh"})


async def test_two_attempts_of_the_router_at_once_pay_once(make_bench: MakeBench, chats: list[str]) -> None:
    bench = await make_bench(ROUTES, tokens_per_second=60)
    first, second = await overlapping(bench, lambda: route(bench), lambda: route(bench, number=2))
    assert first == second
    assert first.route is not None
    assert first.usage.model_calls == 1
    assert bench.statuses() == [200]
    (line,) = told(bench)
    assert (line.agent, line.role, line.outcome) == ("router", "router", "tool_use")
    assert line.output_tokens == first.usage.output_tokens
    assert chats == ["tool_use"]


@pytest.mark.parametrize("answer", [says("No idea."), does(call("read", file_path="a"))], ids=["prose", "other tool"])
async def test_an_answer_that_nobody_can_read_is_told_and_paid_as_well(
    make_bench: MakeBench, chats: list[str], answer: Reply
) -> None:
    bench = await make_bench(answer)
    found = await route(bench)
    assert (found.route, found.usage.model_calls) == (None, 1)
    assert [line.agent for line in told(bench)] == ["router"]
    assert len(chats) == 1
    assert await route(bench, number=2) == found
    assert bench.statuses() == [200]


@pytest.mark.parametrize("after", ["call/", "route"])
async def test_a_killed_router_goes_on_where_it_was(make_bench: MakeBench, after: str) -> None:
    bench = await make_bench(ROUTES)
    bench.folder.store = DyingStore(bench.folder.path / "store", after)
    with pytest.raises(Killed):
        await route(bench)
    bench.restart()
    found = await route(bench, number=2)
    assert found.usage.model_calls == 1
    assert bench.statuses() == [200]
    assert len(told(bench)) == 1


async def test_another_run_finds_the_answer_and_does_not_count_it_again(make_bench: MakeBench) -> None:
    bench = await make_bench(ROUTES)
    paid = await in_attempt(bench, question(bench), run="first")
    bench.restart()
    found = await in_attempt(bench, question(bench), run="second")
    assert (found.response, found.spent) == (paid.response, paid.spent)
    assert await usage_in(bench, found, "first") == paid.spent
    assert await usage_in(bench, found, "second") == Usage()
    assert len(told(bench)) == 1


async def usage_in(bench: Bench, found: Answered, run: str) -> Usage:
    async def usage() -> Usage:
        return found.usage()

    counted: Usage = await in_attempt(bench, usage, run=run)
    return counted


async def test_what_broken_and_killed_attempts_cost_is_counted_once(make_bench: MakeBench) -> None:
    bench = await make_bench(Reply([Text("half " * 50)], fault=Cut(4)), ROUTES, ROUTES)
    with pytest.raises(ModelError) as broken:
        await in_attempt(bench, question(bench), number=1)
    assert broken.value.lost is not None
    spent = broken.value.lost
    assert spent.model_calls == 1
    await killed_under_way(bench, 2)
    beats = ({"doing": "asking: router", "tokens": 30, "attempt": 2},)
    found = await in_attempt(bench, question(bench), number=3, heartbeat_details=beats)
    assert found.spent.model_calls == 3
    assert found.spent.output_tokens == spent.output_tokens + 30 + found.response.usage.output_tokens
    assert [line.outcome for line in told(bench)] == ["broken", "killed", "tool_use"]
    assert sum(line.output_tokens for line in told(bench)) == found.spent.output_tokens


async def killed_under_way(bench: Bench, number: int) -> None:
    """One attempt whose process ends when it has asked."""
    respond = bench.model.respond

    async def asked(request: ModelRequest, progress: Progress, *more: Any) -> Response:
        await respond(request, progress, *more)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.model, "respond", asked)
        with pytest.raises(Killed):
            await in_attempt(bench, question(bench), number=number)
    bench.restart()


async def test_a_killed_call_that_told_nothing_is_counted_by_its_request(make_bench: MakeBench) -> None:
    bench = await make_bench(ROUTES, ROUTES)
    await killed_under_way(bench, 1)
    beats = ({"doing": "model", "tokens": 30, "attempt": 1},)
    found = await in_attempt(bench, question(bench), number=2, heartbeat_details=beats)
    paid = found.response.usage
    assert (found.spent.model_calls, found.spent.output_tokens) == (2, paid.output_tokens)
    assert found.spent.total_input_tokens == pytest.approx(2 * paid.total_input_tokens, rel=0.5)
    assert [line.outcome for line in told(bench)] == ["killed", "tool_use"]


async def test_an_attempt_that_was_killed_before_it_asked_lost_nothing(make_bench: MakeBench) -> None:
    bench = await make_bench(ROUTES)
    beats = ({"doing": "asking: router", "tokens": 30, "attempt": 1},)
    found = await in_attempt(bench, question(bench), number=2, heartbeat_details=beats)
    assert found.spent.model_calls == 1


async def summarized(bench: Bench, number: int = 1) -> Synthesis:
    found: Synthesis = await in_attempt(
        bench, Synthesizing(bench.tasks, bench.model, bench.credentials).summarize, FACTS, number=number
    )
    return found


async def test_two_attempts_of_the_summary_at_once_pay_once(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("submit_summary", summary="Both steps are ok.")), tokens_per_second=60)
    first, second = await overlapping(bench, lambda: summarized(bench), lambda: summarized(bench, number=2))
    assert first == second
    assert bench.statuses() == [200]
    assert [(line.agent, line.role) for line in told(bench)] == [("summarizer", "summarizer")]


async def test_a_summary_that_fails_for_good_says_why_and_what_it_cost(make_bench: MakeBench) -> None:
    bench = await make_bench(
        Reply([Text("half " * 50)], fault=Cut(4)), Reply(fault=HttpError(400, "invalid_request_error", "No."))
    )
    with pytest.raises(Exception, match="stream"):
        await summarized(bench)
    found = await summarized(bench, number=2)
    assert (found.text, found.usage.model_calls) == ("", 1)
    assert "No." in found.why


async def test_after_the_last_attempt_the_report_does_without(make_bench: MakeBench) -> None:
    bench = await make_bench(Reply(fault=HttpError(500, "api_error", "Later.")))
    found = await summarized(bench, number=ATTEMPTS)
    assert "Later." in found.why
