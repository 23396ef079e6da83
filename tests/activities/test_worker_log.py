"""The worker's log: one JSON line per event, placed by where the code runs, and no secret in it."""

import asyncio
import io
import json
import logging
from types import SimpleNamespace

from temporalio import activity
from temporalio.testing import ActivityEnvironment

from activities.logs import JsonLines, lines_of_turn

SECRET = "sk-ant-0123456789"


def logged(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def logger_to(stream: io.StringIO) -> logging.Logger:
    logger = logging.Logger("baton.test")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(lambda: [SECRET]))
    logger.addHandler(handler)
    return logger


async def test_lines_of_turns_side_by_side_know_their_own_turn() -> None:
    stream = io.StringIO()
    logger = logger_to(stream)

    async def turn(number: int) -> None:
        with lines_of_turn("a-task", f"executor-{number}", number):
            await asyncio.sleep(0)
            await asyncio.to_thread(logger.info, "works %s", number)

    await asyncio.gather(turn(1), turn(2))
    logger.info("outside")
    lines = logged(stream)
    assert {(line.get("agent"), line.get("turn"), line["message"]) for line in lines} == {
        ("executor-1", 1, "works 1"),
        ("executor-2", 2, "works 2"),
        (None, None, "outside"),
    }


async def test_a_line_in_an_activity_belongs_to_its_task() -> None:
    stream = io.StringIO()
    logger = logger_to(stream)

    @activity.defn
    async def work() -> None:
        logger.warning("merging")

    environment = ActivityEnvironment()
    await environment.run(work)
    (line,) = logged(stream)
    assert line["task"] == environment.info.workflow_id
    assert line["level"] == "WARNING"


def test_a_line_of_temporals_core_belongs_to_the_task_it_names() -> None:
    record = logging.LogRecord("temporal.core", logging.WARNING, "x", 1, "slow", (), None)
    record.temporal_log = SimpleNamespace(fields={"workflow_id": "a-task/step-1", "run_id": "r"})
    assert json.loads(JsonLines(list).format(record))["task"] == "a-task"
    record.temporal_log = SimpleNamespace(fields={})
    assert "task" not in json.loads(JsonLines(list).format(record))


def test_an_event_names_its_task_where_no_activity_runs() -> None:
    stream = io.StringIO()
    logger_to(stream).info("ended", extra={"event": {"task": "a-task", "agent": "executor-1", "kind": "ended"}})
    (line,) = logged(stream)
    assert (line["task"], line["agent"]) == ("a-task", "executor-1")


def test_secrets_are_masked_and_a_line_stays_one_line() -> None:
    stream = io.StringIO()
    logger = logger_to(stream)
    try:
        raise ValueError(f"key {SECRET}\nsecond line \udcff")
    except ValueError:
        logger.exception("called with %s", SECRET)
    assert SECRET not in stream.getvalue()
    (line,) = logged(stream)
    assert line["message"] == "called with [secret]"
    assert "second line" in str(line["error"])


def test_credentials_that_cannot_be_read_cost_no_line() -> None:
    def unreadable() -> list[str]:
        raise OSError("gone")

    record = logging.LogRecord("baton", logging.INFO, "x", 1, "still here", (), None)
    assert json.loads(JsonLines(unreadable).format(record))["message"] == "still here"
