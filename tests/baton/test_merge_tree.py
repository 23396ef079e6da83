"""The parser of merge-tree's output and the search for markers; tests/activities/test_merging.py has real output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.merge_tree import ConflictKind, left_markers, parse_merge_tree

TREE, BLOB = "a" * 40, "b" * 40
MARKED = b"a\n<<<<<<< ours\nb\n||||||| base\nc\n=======\nd\n>>>>>>> refs/heads/step-2\ne\n"


def output(entries: list[tuple[str, int, str]], *messages: tuple[str, ...]) -> bytes:
    stages = [f"{mode} {BLOB} {stage}\t{path}" for mode, stage, path in entries]
    told = [field for kind, *paths in messages for field in (str(len(paths)), *paths, kind, f"{kind}: so it is\n")]
    return "\0".join([TREE, *stages, "", *told, ""]).encode()


def test_a_clean_merge_has_a_tree_and_nothing_else() -> None:
    merged = parse_merge_tree(f"{TREE}\0".encode(), clean=True)
    assert (merged.tree, merged.conflicts) == (TREE, ())


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["Auto-merging", "CONFLICT (contents)"], ConflictKind.CONTENT),
        (["CONFLICT (binary)", "CONFLICT (contents)"], ConflictKind.BINARY),
        (["CONFLICT (submodule with possible resolution)"], ConflictKind.SUBMODULE),
        (["CONFLICT (directory rename suggested)"], ConflictKind.DIRECTORY_RENAME),
        (["CONFLICT (of a kind git invents next year)"], ConflictKind.OTHER),
        ([], ConflictKind.OTHER),
    ],
)
def test_the_strongest_of_gits_words_counts(kinds: list[str], expected: ConflictKind) -> None:
    entries = [("100644", stage, "f") for stage in (1, 2, 3)]
    (conflict,) = parse_merge_tree(output(entries, *((kind, "f") for kind in kinds)), clean=False).conflicts
    assert conflict.kind is expected


def test_a_conflict_without_an_entry_is_not_overlooked() -> None:
    text = output([], ("CONFLICT (directory rename split)", "old"), ("Auto-merging", "fine.txt"))
    (conflict,) = parse_merge_tree(text, clean=False).conflicts
    assert (conflict.path, conflict.kind) == (b"old", ConflictKind.DIRECTORY_RENAME)


def test_what_is_no_output_of_merge_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="no tree"):
        parse_merge_tree(b"fatal: bad revision\0", clean=False)


def test_exactly_the_lines_git_writes_are_markers() -> None:
    assert left_markers(MARKED, set()) == (2, 4, 6, 8)
    assert left_markers(MARKED.replace(b"\n", b"\r\n"), set()) == (2, 4, 6, 8)
    assert left_markers(b"<<<<<< six\n <<<<<<< indented\n======= x\n<<<<<<<x\n", set()) == ()
    assert left_markers(b"Title\n=======\n", {b"======="}) == ()


@given(st.binary(max_size=400))
def test_no_text_that_a_side_had_whole_holds_a_marker(text: bytes) -> None:
    assert left_markers(text, set(text.replace(b"\r\n", b"\n").split(b"\n"))) == ()
