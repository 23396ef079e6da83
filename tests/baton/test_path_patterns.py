"""One meaning of glob patterns."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.path_patterns import fold, matches, matches_anywhere

COMPONENT = st.text("ab.é", min_size=1, max_size=4).filter(lambda part: part not in {".", ".."})
PATH = st.lists(COMPONENT, min_size=1, max_size=5).map("/".join)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "src/deep/a.py", True),
        ("src/**/*.js", "src/a.js", True),
        ("src/**/test/*.js", "src/x/y/test/a.js", True),
        ("src/**", "src/a/b", True),
        ("src/**", "src", False),
        ("src/", "src/a", True),
        ("./src/*.py", "src/a.py", True),
        ("{src,lib}/*.{js,ts}", "lib/a.ts", True),
        ("{src,lib}/*.{js,ts}", "lib/a.css", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("with space/*", "with space/ü.py", True),
    ],
)
def test_matches(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        (".env", ".env", True),
        (".env", "deep/in/.env", True),
        ("./.env", "deep/.env", False),
        ("secrets", "app/secrets/key", True),
        ("./secrets/**", "secrets/a/b", True),
        ("/src/*.ts", "src/a.ts", True),
        ("/src/*.ts", "x/src/a.ts", False),
        ("*.pem", "certs/a.pem", True),
    ],
)
def test_matches_anywhere_follows_gitignore(pattern: str, path: str, expected: bool) -> None:
    assert matches_anywhere(pattern, path) is expected


@given(PATH)
def test_every_path_is_named_by_itself_and_by_double_star(path: str) -> None:
    assert matches(path, path)
    assert matches("**", path)
    assert matches(f"**/{path.rsplit('/', 1)[-1]}", path)


def test_no_pattern_hangs() -> None:
    started = time.monotonic()
    assert not matches("**/" * 40 + "*a*a*a*a*a*a*a*a*b", "/".join(["a" * 60] * 60))
    assert not matches("{a,b}" * 30, "c")
    assert time.monotonic() - started < 2


def test_fold_ignores_case_and_unicode_form() -> None:
    assert fold("E\u0301tude.PY") == fold("\u00e9tude.py")
