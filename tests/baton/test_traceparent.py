"""The W3C header `traceparent`, as others send it: valid ones are understood, all else is nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.traceparent import Caller, caller_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("header", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f" 00-{TRACE}-{SPAN}-03\n", True),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", True),
    ],
)
def test_a_valid_header_names_the_caller(header: str, sampled: bool) -> None:
    assert caller_of(header) == Caller(int(TRACE, 16), int(SPAN, 16), sampled)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
        f"{TRACE}-{SPAN}-01",
        "-".join(("00", TRACE, SPAN, "٠١")),
    ],
)
def test_what_is_no_header_names_nobody(header: str) -> None:
    assert caller_of(header) is None


@given(st.text(max_size=80) | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{31,33}-[0-9a-f]{16}-[0-9a-f]{2}"))
def test_any_text_is_read(header: str) -> None:
    found = caller_of(header)
    assert found is None or (0 < found.trace < 2**128 and 0 < found.span < 2**64)
