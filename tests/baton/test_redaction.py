"""Secrets are masked, ordinary settings are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.names import task_text_fault
from baton.redaction import (
    MASK,
    is_secret_file,
    is_secret_name,
    is_secret_value,
    masked_file,
    redacted,
    secret_values,
    secrets_of_file,
)


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


SECRET_NAMES = """
    DB_PASSWORD PGPASSWORD API_KEY apiKey STRIPE_KEY GITHUB_TOKEN AUTH_TOKEN spring.datasource.password client-secret
    KEYCLOAK_ADMIN_PASSWORD KEYCLOAK_CLIENT_SECRET KEYCLOAK_API_KEY AUTHORIZATION PROXY_AUTHORIZATION
    AUTHORIZATION_TOKEN AUTHORIZER_SECRET AUTHOR_API_KEY AUTHOR_PASSWORD KEYBOARD_API_KEY VAULT_SECRET_ID TOKEN_ID
    EXPIRED_PASSWORD EXPIRING_TOKEN API_TOKENS TOKENIZER_API_KEY MAX_TOKENS_API_KEY TOKEN_FILE_PASSWORD SALT SENTRY_DSN
"""
PLAIN_NAMES = """
    PORT AUTHOR AUTHORS GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL OIDC_AUTHORITY KEYBOARD KEYBOARD_LAYOUT KEYCLOAK_REALM KEYCLOAK
    KEYCLOAK_VERSION KEYCLOAK_URL TOKEN_FILE TOKEN_URL PASSWORD_FILE SECRET_PATH KEY_FILE AUTH_URL auth.url MAX_TOKENS
    MAX_OUTPUT_TOKENS TOKEN_LIMIT TOKENIZER TOKEN_TTL TOKEN_EXPIRES_IN TOKEN_EXPIRE_MINUTES KEY_EXPIRY AUTH_CLIENT_ID
    AWS_ACCESS_KEY_ID PASSWORD_MIN_LENGTH AUTH_TYPE DB_PASSWORD_USER
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [*((name, True) for name in SECRET_NAMES.split()), *((name, False) for name in PLAIN_NAMES.split())],
)
def test_which_settings_hold_secrets(name: str, expected: bool) -> None:
    assert is_secret_name(name) is expected


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


@pytest.mark.parametrize(
    "token",
    [
        "sk-ant-api03-" + "aB3_" * 8,
        "sk-proj-" + "aB3-" * 8,
        "ghp_" + "a1" * 18,
        "github_pat_" + "a1_" * 12,
        "glpat-" + "a1b2" * 5,
        "xoxb-123456789012-abcdefghij",
        "AKIAABCDEFGH12345678",
        "AIza" + "a" * 35,
        "npm_" + "a" * 36,
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
        f"-----BEGIN PRIVATE KEY-----\n{'A' * 64}\n{'B' * 10}==\n-----END PRIVATE KEY-----",
        f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{'A' * 64}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\\n{'A' * 64}\\n-----END PRIVATE KEY-----\\n",
    ],
)
def test_whatever_has_the_shape_of_a_token_is_masked(token: str) -> None:
    shown = redacted(f'x = "{token}" and more')
    assert shown.startswith('x = "[secret]')
    assert shown.endswith(" more")
    assert token[8:20] not in shown


@pytest.mark.parametrize(
    "text",
    [
        "class=sk-folding-cube ghp_short AKIA",
        'if line.startswith("-----BEGIN PRIVATE KEY-----"):',
        "sha256:" + "0123456789abcdef" * 4,
        "A" * 200 + "\n" + "B" * 200,
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redacted(text) == text


def test_a_key_that_was_cut_is_masked_at_both_ends() -> None:
    lines = [letter * 64 for letter in "ABCDEF"]
    head = "file:\n-----BEGIN PRIVATE KEY-----\n" + "\n".join(lines[:3])
    tail = "\n".join([*lines[3:], "abc=", "-----END PRIVATE KEY-----", "rest"])
    shown = redacted(f"{head}\n[… left out …]\n{tail}")
    assert shown == f"file:\n{MASK}[… left out …]\n{MASK}\nrest"


def test_long_text_takes_little_time() -> None:
    line = "QUJD" * 16 + "\n"
    assert redacted(line * 30_000) == line * 30_000


def test_each_line_of_a_key_file_is_a_secret() -> None:
    line = "A" * 64
    assert secrets_of_file("server.pem", f"-----BEGIN PRIVATE KEY-----\n{line}\n") == {line}
    assert secrets_of_file("server.pem", f"-----BEGIN CERTIFICATE-----\n{line}\n") == set()
    assert secrets_of_file("notes.txt", f"-----BEGIN PRIVATE KEY-----\n{line}\n") == set()


def test_a_task_that_holds_a_secret_is_refused() -> None:
    fault = task_text_fault(f"Use ghp_{'a1B2' * 9} to push")
    assert fault is not None
    assert "ghp_a1B2…" in fault
    assert "a1B2a1B2" not in fault


def test_the_key_of_the_stand_in_is_a_word_of_ordinary_prose() -> None:
    assert not is_secret_value("stand-in")
    assert is_secret_value("swordfish"), "a weak password is one all the same"
