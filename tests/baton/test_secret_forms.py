"""Known secrets are found in the forms in which programs write them, and ordinary text stays as it is."""

import base64
import json
import textwrap
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.redaction import redacted
from baton.secret_forms import MASK, known

SECRET = 'tok/7"é+Zq&4=x9-ÿ'
PLAIN = "hunter2-is-a-pass"


@pytest.mark.parametrize("before", ["", "A", "AB", "ABC"])
@pytest.mark.parametrize("after", ["", "Z", "YZ"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
@pytest.mark.parametrize("secret", [SECRET, PLAIN, PLAIN * 9])
def test_base64_at_every_alignment(before: str, after: str, encode: object, secret: str) -> None:
    assert callable(encode)
    text = encode(f"{before}{secret}{after}".encode()).decode()
    shown = redacted(f"x: {text}!", [secret])
    assert MASK in shown
    rest = shown.replace(MASK, "").replace("x: ", "").strip("!")
    assert len(rest.replace("\n", "")) <= 4 * (len(before) + len(after)) / 3 + 8
    assert secret in known([secret]).found_in(text)


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").lower().replace("zq", "Zq"),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        "".join(f"%{byte:02x}" for byte in SECRET.encode()),
    ],
)
def test_other_forms(form: str) -> None:
    assert redacted(f"a={form};", [SECRET]).replace('"', "") == f"a={MASK};"


def test_a_secret_broken_over_lines_is_masked_and_the_lines_stay() -> None:
    coded = base64.b64encode((PLAIN * 9).encode()).decode()
    for text in (
        "\n".join(textwrap.wrap(coded, 76)),
        "  " + "\n  ".join(textwrap.wrap(coded, 20)),
        "\r\n".join(textwrap.wrap(coded, 64)),
        json.dumps("\n".join(textwrap.wrap(coded, 64))),
        "\n".join(textwrap.wrap((PLAIN * 9).encode().hex(), 60)),
        "\n".join(textwrap.wrap(PLAIN * 9, 10, break_on_hyphens=False)),
    ):
        shown = redacted(f"first\n{text}\nlast", [PLAIN * 9])
        assert shown.count("\n") == text.count("\n") + 2
        assert not any(len(line.strip('" ')) > 12 for line in shown.replace(MASK, "").split("\n"))
        assert shown.startswith("first\n")
        assert shown.endswith("\nlast")


@given(st.text(alphabet="ab-\n\\n", max_size=60), st.text(alphabet="xyz\n", max_size=40))
def test_only_the_secret_goes(before: str, after: str) -> None:
    """Whatever lines surround it, and wherever it is broken."""
    for secret in (PLAIN, f"{PLAIN[:9]}\n{PLAIN[9:]}"):
        shown = redacted(f"{before}{secret}{after}", [PLAIN])
        assert shown.startswith(before)
        assert shown.endswith(after)
        assert set(shown[len(before) : len(shown) - len(after)].split("\n")) == {MASK}


@given(st.text(max_size=200))
def test_text_without_a_secret_stays(text: str) -> None:
    assert known([PLAIN, SECRET]).masked(text) == text
    assert known([PLAIN, SECRET]).found_in(text) == frozenset()


def test_one_secret_within_another() -> None:
    assert redacted("a longer-secret-2 and secret-2", ["secret-2", "longer-secret-2"]) == f"a {MASK} and {MASK}"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\\\n", "\\\r\n", "\\r", "\\n", "\n \t ", "\n\n", "\\n\n"])
def test_a_secret_broken_by_any_line_end_is_found(line_end: str) -> None:
    text = f"x {PLAIN[:7]}{line_end}{PLAIN[7:]} y"
    assert PLAIN in known([PLAIN]).found_in(text)
    shown = redacted(text, [PLAIN])
    assert PLAIN[:7] not in shown
    assert PLAIN[7:] not in shown


@pytest.mark.parametrize("kind", "pousr")
def test_every_kind_of_a_github_token_is_masked(kind: str) -> None:
    assert redacted(f"the right height: gh{kind}_{'a1' * 18}.") == f"the right height: {MASK}."
