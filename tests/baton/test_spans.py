"""Ids that follow from what a span is about, and what of a conversation is told."""

import json

from hypothesis import given
from hypothesis import strategies as st

from baton import telemetry_names
from baton.conversation import Response
from baton.pricing import Usage
from baton.telemetry import (
    LONGEST_CONTENT,
    agent_key,
    cache_share,
    clean_json,
    input_content,
    known,
    output_content,
    response_attributes,
    span_id,
    trace_id,
)

KEYS = st.lists(st.one_of(st.text(), st.integers(), st.none()), min_size=1, max_size=4).map(tuple)


@given(KEYS, KEYS)
def test_ids_are_the_same_for_the_same_thing_and_differ_for_others(
    one: tuple[object, ...], other: tuple[object, ...]
) -> None:
    trace = trace_id("a-task", "run")
    assert span_id(trace, one) == span_id(trace, one)
    assert 0 < span_id(trace, one) < 2**64
    same = [str(part) for part in one] == [str(part) for part in other]
    assert (span_id(trace, one) == span_id(trace, other)) == same


def test_each_task_is_a_trace_of_its_own() -> None:
    traces = {trace_id("a-task", "run"), trace_id("a-task", "later run"), trace_id("another", "run")}
    assert len(traces) == 3
    assert all(0 < trace < 2**128 for trace in traces)
    assert len({span_id(trace, agent_key("executor-1")) for trace in traces}) == 3


def test_attributes_say_what_a_response_used() -> None:
    usage = Usage(input_tokens=10, cache_read_tokens=30, cache_write_5m_tokens=5, output_tokens=7)
    told = response_attributes(Response(id="msg_1", model="a-model", stop_reason="tool_use", usage=usage))
    assert told["gen_ai.usage.input_tokens"] == 45
    assert told["gen_ai.usage.cache_read.input_tokens"] == 30
    assert told["gen_ai.usage.output_tokens"] == 7
    assert told["gen_ai.response.finish_reasons"] == ("tool_use",)
    assert told["baton.cache_share"] == 0.6667
    assert cache_share(Usage()) is None
    assert known(STEP=None, NAME="", TURN=0) == {"baton.turn": 0}


def test_content_is_cleaned_everywhere_and_thoughts_are_left_out() -> None:
    def clean(text: str) -> str:
        return text.replace("hunter2", "[secret]")

    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": ["echo hunter2"]}}
    blocks = ({"type": "thinking", "thinking": "hunter2"}, {"type": "text", "text": "say hunter2"}, call)
    response = Response(id="m", model="a-model", stop_reason="tool_use", content=blocks)
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "hunter2\n"}
    messages = [{"role": "user", "content": "earlier"}, {"role": "user", "content": [result]}]
    told = output_content(response, clean), input_content(messages, clean), clean_json({"a": ["hunter2"]}, clean)
    assert "hunter2" not in "".join(told)
    (said,) = json.loads(told[0])
    assert [part["type"] for part in said["parts"]] == ["text", "tool_call"]
    (asked,) = json.loads(told[1])
    assert asked["parts"] == [{"type": "tool_call_response", "id": "t1", "response": "[secret]\n"}]


def test_content_is_cut() -> None:
    assert len(clean_json("x" * (LONGEST_CONTENT * 2), str)) <= LONGEST_CONTENT + 3


def test_every_name_is_there_once() -> None:
    values = [value for name, value in vars(telemetry_names).items() if name.isupper()]
    doubled = {value for value in values if values.count(value) > 1}
    assert doubled == {
        "baton",
    }
