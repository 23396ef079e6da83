"""Runs that older versions started finish on this one: their recorded histories replay without a difference."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from workflows.agent import AgentWorkflow
from workflows.orchestration import OrchestrationWorkflow

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    started = json.loads(text)["events"][0]["workflowExecutionStartedEventAttributes"]
    history = WorkflowHistory.from_json(started["workflowId"], text)
    replayer = Replayer(workflows=[OrchestrationWorkflow, AgentWorkflow], data_converter=pydantic_data_converter)
    await replayer.replay_workflow(history)


def test_there_are_recordings_of_both_workflows() -> None:
    labels = {path.stem.split("-")[1] for path in HISTORIES}
    assert {"task", "plan", "step", "integrate"} <= labels


def test_there_is_a_recording_of_a_conflict_that_a_person_decided() -> None:
    texts = [path.read_text(encoding="utf-8") for path in HISTORIES if path.stem.startswith("v3-")]
    tasks = [text for text in texts if '"prepare_conflict"' in text]
    assert [text for text in tasks if '"settle_conflict"' in text and '"signalName": "answer"' in text]
    assert {path.stem.split("-")[1] for path in HISTORIES if path.stem.startswith("v3-")} >= {"task", "resolve"}
