"""Only a step's owner changes its files."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.ownership import Ownership, Refused

STEP = Ownership(
    items=("src/a.js", "src/ü b.js"),
    owns=("generated/**",),
    others={"src/c.js": "step 3", "docs/**": "step 4", "app/[id].tsx": "step 5", "generated/keep.txt": "step 6"},
)


def allowed(ownership: Ownership, path: str, *, exists: bool = True) -> bool:
    return not isinstance(ownership.may_write(path, exists), Refused)


@pytest.mark.parametrize(
    "path", ["src/a.js", "./src/a.js", "src//a.js", "src/a.ts", "src/ü b.js", "src/ü b.tsx", "generated/deep/x.json"]
)
def test_own_paths_are_allowed_even_where_they_exist(path: str) -> None:
    assert allowed(STEP, path)


@pytest.mark.parametrize("path", ["src/other.js", "a.js", "lib/a.js", "src/a.test.js", "README.md"])
def test_existing_paths_of_nobody_are_refused_and_new_ones_allowed(path: str) -> None:
    assert not allowed(STEP, path)
    assert allowed(STEP, path, exists=False)


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("src/c.js", "step 3"),
        ("src/c.ts", "step 3"),
        ("src/C.js", "step 3"),
        ("docs/new.md", "step 4"),
        ("DOCS/new.md", "step 4"),
        ("app/[id].tsx", "step 5"),
        ("generated/keep.txt", "step 6"),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_paths_of_others_are_refused_and_name_the_owner(path: str, owner: str, exists: bool) -> None:
    verdict = STEP.may_write(path, exists)
    assert isinstance(verdict, Refused)
    assert verdict.owner == owner
    assert owner in verdict.message
    assert "record with needs" in verdict.message


def test_case_twins_of_one_repository_have_their_own_owners() -> None:
    upper = Ownership(items=("src/Foo.js",), others={"src/foo.js": "step 2"})
    lower = Ownership(items=("src/foo.js",), others={"src/Foo.js": "step 1"})
    assert allowed(upper, "src/Foo.js")
    assert allowed(lower, "src/foo.js")
    assert not allowed(upper, "src/foo.js")
    assert not allowed(lower, "src/Foo.js")


def test_unicode_forms_of_a_foreign_name_are_foreign() -> None:
    step = Ownership(items=("a.py",), others={"\u00e9.py": "step 2"})
    assert not allowed(step, "e\u0301.py", exists=False)


def test_a_step_without_items_may_change_what_nobody_owns() -> None:
    step = Ownership(others={"src/c.js": "step 3"})
    assert allowed(step, "README.md")
    assert not allowed(step, "src/c.js")


def test_a_reading_role_writes_nothing() -> None:
    assert not allowed(Ownership(read_only=True), "new.txt", exists=False)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "src/../../x"])
def test_paths_outside_are_refused(path: str) -> None:
    assert not allowed(Ownership(), path, exists=False)


def test_foreign_names_what_a_diff_may_not_hold() -> None:
    foreign = STEP.foreign({"src/c.js": True, "src/a.js": True, "new.txt": False, "README.md": True})
    assert [refused.path for refused in foreign] == ["README.md", "src/c.js"]


NAME = st.text("abAB é'\"\n-", min_size=1, max_size=3)
FILE = st.builds(
    lambda folder, name, suffix: posixpath.join(folder, name + suffix), NAME, NAME, st.sampled_from(["", ".js"])
)


@given(st.sets(FILE, min_size=2, max_size=8), st.data())
def test_no_item_is_ever_writable_by_two_steps(files: set[str], data: st.DataObject) -> None:
    ordered = sorted(files)
    cut = data.draw(st.integers(1, len(ordered) - 1))
    mine, theirs = ordered[:cut], ordered[cut:]
    one = Ownership(items=tuple(mine), others=dict.fromkeys(theirs, "two"))
    two = Ownership(items=tuple(theirs), others=dict.fromkeys(mine, "one"))
    for path in files:
        assert allowed(one, path) != allowed(two, path)


def test_the_items_of_a_large_task_are_looked_up_not_matched() -> None:
    """Judging 200 paths beside 5 000 items takes milliseconds: agents of large tasks do it after every turn."""
    others = {f"src/package_{n % 50}/module_{n}.py": "step 1" for n in range(5_000)} | {"docs/": "step 2"}
    ownership = Ownership(items=("src/mine.py",), others=others)
    assert len(ownership._others_globs) == 1
    changed = dict.fromkeys([*others][:200], True) | {"docs/guide.md": True, "src/mine.py": True}
    assert {refused.owner for refused in ownership.foreign(changed)} == {"step 1", "step 2"}
