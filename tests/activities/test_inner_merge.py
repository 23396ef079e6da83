"""What libgit2 merges and compares is what git merges and finds: random trees, each by both."""

from pathlib import Path
from typing import Any

import pygit2
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from activities.inner_git import InnerGit
from activities.result_branch import _parsed
from tests.activities.test_merging import git

PLAIN = 0o100644
Files = dict[str, tuple[int, str]]
CONTENTS = st.sampled_from(["x\n", "y\n", "several\nlines\nof it\n"])
MODES = st.sampled_from([PLAIN] * 6 + [0o100755, 0o100755, 0o120000, 0o160000])
FILE = st.tuples(MODES, CONTENTS)
NAMES = st.sampled_from(["a", "b", "c", "d", "a/b", "a/c", "b/a/c", "d/e/f", "d/e/g", "é", "z z", "n1", "n2", "n3/n4"])
TREE = st.dictionaries(NAMES, FILE, max_size=7)
EDIT = st.dictionaries(NAMES, st.one_of(FILE, FILE, FILE, st.none()), max_size=4)
IDENTITY = pygit2.Signature("Ada", "ada@example.org", 1_000_000_000, 0)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pygit2.Repository:
    return pygit2.init_repository(str(tmp_path_factory.mktemp("inner") / "repository.git"), bare=True)


def committed(repository: pygit2.Repository, files: Files, *parents: str) -> str:
    """A commit of these files; where one stands in the way of another, the first of them counts."""
    index = pygit2.Index()
    taken: list[str] = []
    for name, (mode, text) in files.items():
        if not any(name.startswith(f"{one}/") or one.startswith(f"{name}/") for one in taken):
            taken.append(name)
            blob = repository.create_blob(text.encode())
            index.add(pygit2.IndexEntry(name, blob, pygit2.enums.FileMode(mode)))
    tree = index.write_tree(repository)
    return str(repository.create_commit(None, IDENTITY, IDENTITY, "m", tree, list(parents)))


def edited(files: Files, edit: dict[str, Any]) -> Files:
    """What a side made of the files; its own stand in nobody's way."""
    own = {name: file for name, file in edit.items() if file is not None}
    return own | {name: file for name, file in files.items() if name not in edit}


def merged_by_git(place: Path, ours: str, theirs: str) -> str | None:
    """The tree; None for a conflict."""
    try:
        return git(place, "merge-tree", "--write-tree", ours, theirs).splitlines()[0]
    except Exception:
        return None


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=TREE, ours=EDIT, theirs=EDIT)
@example(files={}, ours={"a": (PLAIN, "x\n")}, theirs={"a/b": (PLAIN, "x\n")})
@example(files={"a": (PLAIN, "x\n")}, ours={"a": None, "b": (PLAIN, "x\n")}, theirs={"a": (PLAIN, "y\n")})
@example(files={"d/e/f": (PLAIN, "x\n")}, ours={"d/e/g": (0o100755, "x\n")}, theirs={"d/e/f": (PLAIN, "y\n")})
def test_a_merge_is_git_s_or_git_is_asked(
    repository: pygit2.Repository, files: Files, ours: dict[str, Any], theirs: dict[str, Any]
) -> None:
    place = Path(repository.path)
    base = committed(repository, files)
    one = committed(repository, edited(files, ours), base)
    branch = committed(repository, edited(files, theirs), committed(repository, files, base))
    repository.references.create("refs/heads/step-1", branch, force=True)
    found = InnerGit(place).merged_tree(base, one, "step-1")
    event("merged" if found else "left to git")
    assert found in (None, merged_by_git(place, one, branch))
    for commit in (one, branch):
        changed = InnerGit(place).changes_of(commit)
        raw = git(place, "diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", f"{commit}^", commit, "--")
        assert changed == _parsed(raw.encode())


def test_plain_steps_are_merged_without_git(repository: pygit2.Repository) -> None:
    files = {"a": (PLAIN, "x\n"), "d/b": (PLAIN, "x\n"), "d/l": (0o120000, "a"), "s": (0o160000, "x\n")}
    base = committed(repository, files)
    one = committed(repository, files | {"a": (PLAIN, "y\n"), "d/n": (0o100755, "y\n")}, base)
    two = committed(repository, files | {"d/b": (PLAIN, "y\n"), "new": (PLAIN, "x\n")}, base)
    repository.references.create("refs/heads/step-2", two, force=True)
    found = InnerGit(Path(repository.path)).merged_tree(base, one, "step-2")
    assert found == merged_by_git(Path(repository.path), one, two) is not None


def test_what_is_no_line_is_git_s(repository: pygit2.Repository) -> None:
    """A branch from elsewhere, a merge on a side, a branch that is not there."""
    base, foreign = (committed(repository, {"a": (PLAIN, text)}) for text in ("x\n", "foreign\n"))
    one = committed(repository, {"a": (PLAIN, "x\n"), "b": (PLAIN, "x\n")}, base)
    both = committed(repository, {"a": (PLAIN, "x\n"), "c": (PLAIN, "x\n")}, base, one)
    inner = InnerGit(Path(repository.path))
    for name, tip in (("foreign", foreign), ("both", both)):
        repository.references.create(f"refs/heads/{name}", tip, force=True)
        assert inner.merged_tree(base, one, name) is None
    assert inner.merged_tree(base, both, "foreign") is None
    assert inner.merged_tree(base, one, "no-such-branch") is None
    assert inner.line(base, both) is None
    assert inner.line(base, base) == []
    assert inner.changes_of(both) is None
