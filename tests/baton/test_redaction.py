"""Secrets are masked, ordinary settings are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.redaction import MASK, is_secret_file, masked_file, redacted, secret_values


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".env", True),
        ("app/.env.local", True),
        (".ENV", True),
        ("prod.env", True),
        (".env.example", False),
        (".env.test.sample", False),
        ("environment.py", False),
        (".envrc.md", False),
    ],
)
def test_which_files_hold_secrets(path: str, expected: bool) -> None:
    assert is_secret_file(path) is expected


def test_every_value_of_a_secret_file_is_masked() -> None:
    text = "# words stay\n\nA=1\r\nexport B = 'two words'\n#C=old\nEMPTY=\nKEY=\"-----BEGIN\nabcdef\n"
    masked = f"# words stay\n\nA={MASK}\r\nexport B = {MASK}\n#C={MASK}\nEMPTY=\nKEY={MASK}\n{MASK}\n"
    assert masked_file(text) == masked


def test_only_what_looks_like_a_secret_is_masked_elsewhere() -> None:
    text = "PORT=8080\nNAME=production\nMY_TOKEN=abcdefgh\nX=0123456789abcdef0123\nDB=postgres://u:passw0rdx@h/d\nPWD=short\n"
    assert secret_values(text) == {"abcdefgh", "0123456789abcdef0123", "passw0rdx"}


@given(st.text(), st.text(), st.text(min_size=8).filter(lambda secret: secret not in MASK and MASK not in secret))
def test_no_secret_survives(before: str, after: str, secret: str) -> None:
    shown = redacted(before + secret + after, [secret])
    assert MASK in shown
    assert secret not in shown.split(MASK)
