"""What is saved of a cut write is a prefix of what the model meant, and never under another name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.conversation import Response
from baton.partial_writes import partial_write


def cut(name: str, raw: str, stop_reason: str = "max_tokens", parsed: Any = None) -> Response:
    block = {"type": "tool_use", "id": "c", "name": name, "input": {} if parsed is None else parsed}
    return Response(id="r", model="m", stop_reason=stop_reason, content=(block,), partial_inputs={"c": raw})


def test_whole_lines_and_the_rest_are_told_apart() -> None:
    part = partial_write(cut("write", '{"file_path": "a.py", "content": "one\\ntwo\\nthr'))
    assert part is not None
    assert (part.file_path, part.whole_lines, part.rest, part.at_line) == ("a.py", "one\ntwo\n", "thr", None)


def test_an_append_goes_on_at_its_line() -> None:
    part = partial_write(cut("append", '{"file_path": "a.py", "at_line": 12, "content": "x\\n'))
    assert part is not None
    assert part.at_line == 12


def test_an_append_whose_line_was_still_to_come_goes_to_the_end() -> None:
    part = partial_write(cut("append", '{"file_path": "a.py", "content": "x\\n'))
    assert part is not None
    assert (part.whole_lines, part.at_line) == ("x\n", None)


@pytest.mark.parametrize(
    "response",
    [
        cut("write", '{"content": "x\\n", "file_path": "a'),
        cut("write", '{"file_path": "a.py"'),
        cut("write", ""),
        cut("append", '{"file_path": "a.py", "content": "x\\n", "at_line": 1'),
        cut("edit", '{"file_path": "a.py", "old_string": "x'),
        cut("write", '{"file_path": "a.py", "content": "x\\n', "tool_use"),
        cut("write", "[1, 2"),
    ],
)
def test_what_cannot_be_saved(response: Response) -> None:
    assert partial_write(response) is None


@given(st.text(max_size=60), st.integers(0, 400), st.sampled_from(["write", "append"]))
def test_any_cut_gives_a_prefix(content: str, length: int, name: str) -> None:
    arguments = {"file_path": "a.py", "at_line": 3, "content": content}
    if name == "write":
        del arguments["at_line"]
    raw = json.dumps(arguments)[:length]
    part = partial_write(cut(name, raw))
    if part is not None:
        assert part.file_path == "a.py"
        assert content.startswith(part.content)
        assert part.whole_lines + part.rest == part.content
        assert part.whole_lines == "" or part.whole_lines.endswith("\n")
