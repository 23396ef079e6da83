"""What a turn asks git: only what may have changed, and the checkpoint holds what it would hold after a look at all."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from agents_bench import Agent, Bench, MakeBench, call, does, git, says

from activities.known_tree import ChangeKind, KnownTree, contents_before, parse_status
from activities.programs import Caller, Captured

Calls = Callable[[], list[str]]
EDIT = call("edit", file_path="src/a.py", old_string="A = 1", new_string="A = 2")
BACK = call("edit", file_path="src/a.py", old_string="A = 2", new_string="A = 1")
DONE = call("complete_item", item="src/a.py")
STRAY = call("bash", command="echo more > stray.txt")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Git's commands since the last look."""
    found: list[str] = []

    def counted(caller: Caller, argv: Sequence[str], **options: Any) -> Captured:
        found.append(next(word for word in argv[2:] if not word.startswith("-") and "=" not in word))
        return capture(caller, argv, **options)

    capture = Caller.capture
    monkeypatch.setattr(Caller, "capture", counted)

    def look() -> list[str]:
        seen = found.copy()
        found.clear()
        return seen

    return look


async def begun(make_bench: MakeBench, *replies: Any) -> tuple[Bench, Agent]:
    """An agent after its first turn, which makes the workspace known."""
    bench = await make_bench(does(call("read", file_path="src/a.py")), *replies, says("Next."))
    agent = await bench.start()
    await agent.turn()
    return bench, agent


async def test_a_turn_of_file_tools_starts_no_git_but_for_new_files(make_bench: MakeBench, asked: Calls) -> None:
    new = call("write", file_path="src/new.py", content="N = 1\n")
    _, agent = await begun(make_bench, does(EDIT, DONE), does(call("read", file_path="src/b.py")), does(new))
    asked()
    outcome = await agent.turn()
    assert [record.item for record in outcome.items] == ["src/a.py"]
    await agent.turn()
    assert asked() == []
    await agent.turn()
    assert asked() == ["status"]
    assert agent.commits()[-1].endswith("turn 4")


async def test_first_turns_reset_nothing_where_the_workspace_is_vouched_for(
    make_bench: MakeBench, asked: Calls
) -> None:
    """A new workspace, a turn that called nothing, and a predecessor's that was looked at when it ended."""
    bench = await make_bench(does(EDIT), says("Hm."), does(BACK), does(EDIT))
    agent = await bench.start()
    for _ in range(3):
        asked()
        await agent.go_on()
        assert "clean" not in asked()
    following = await agent.succeed()
    await following.go_on()
    assert "clean" not in asked()
    assert following.commits()[-1].endswith("turn 1")


async def test_a_turn_with_a_command_looks_at_everything_once(make_bench: MakeBench, asked: Calls) -> None:
    command = "echo x >> src/a.py; git add -A; rm docs/guide.md; echo new > made.txt"
    bench, agent = await begun(make_bench, does(call("bash", command=command), DONE))
    asked()
    await agent.turn()
    assert asked() == ["ls-files", "read-tree", "status", "checkout-index"]
    changed = git(
        bench.folder.repository.path, "diff", "--name-status", agent.assignment.start_commit, agent.state.commit
    )
    assert changed.split() == ["A", "made.txt", "M", "src/a.py"]
    assert (agent.workspace / "docs/guide.md").exists()


async def test_an_index_that_a_command_left_alone_is_still_known(make_bench: MakeBench, asked: Calls) -> None:
    again = does(call("bash", command="echo x >> src/a.py"))
    _, agent = await begun(make_bench, again, again)
    await agent.turn()
    asked()
    outcome = await agent.turn()
    assert asked() == ["status"]
    assert git(agent.workspace, "show", f"{outcome.commit}:src/a.py") == "A = 1\nx\nx"


async def test_an_item_that_is_as_it_was_is_no_change(make_bench: MakeBench, asked: Calls) -> None:
    _, agent = await begun(make_bench, does(EDIT), does(BACK, DONE), does(EDIT, DONE))
    await agent.turn()
    outcome = await agent.turn()
    assert outcome.items == ()
    outcome = await agent.turn()
    assert [record.item for record in outcome.items] == ["src/a.py"]


async def test_ignored_files_stay_out_until_the_rules_change(make_bench: MakeBench) -> None:
    new = call("write", file_path="src/new.log", content="x\n")
    bench, agent = await begun(
        make_bench,
        does(call("write", file_path=".gitignore", content="*.log\n")),
        does(new, call("write", file_path="src/new.txt", content="x\n")),
        does(call("write", file_path=".gitignore", content="*.tmp\n")),
    )
    path = bench.folder.repository.path
    await agent.turn()
    await agent.turn()
    assert "src/new.txt" in git(path, "ls-tree", "-r", "--name-only", agent.state.commit).split()
    assert "src/new.log" not in git(path, "ls-tree", "-r", "--name-only", agent.state.commit).split()
    await agent.turn()
    assert "src/new.log" in git(path, "ls-tree", "-r", "--name-only", agent.state.commit).split()


async def test_what_another_process_did_in_between_is_seen(make_bench: MakeBench, asked: Calls) -> None:
    edit_b = call("edit", file_path="src/b.py", old_string="B = 1", new_string="B = 2")
    bench, agent = await begun(make_bench, does(EDIT, STRAY), does(edit_b))
    known = bench.folder.repository
    bench.restart()
    await agent.turn()
    bench.folder.repository = known
    await agent.turn()
    files = git(known.path, "ls-tree", "-r", "--name-only", agent.state.commit).split()
    assert {"stray.txt", "src/a.py"} <= set(files)
    changed = git(known.path, "diff", "--name-only", agent.assignment.start_commit, agent.state.commit)
    assert changed.split() == ["src/a.py", "src/b.py", "stray.txt"]


async def test_a_second_attempt_knows_nothing(make_bench: MakeBench, asked: Calls) -> None:
    bench, agent = await begun(make_bench, does(EDIT))
    (agent.workspace / "half.txt").write_text("what a first attempt left\n")
    asked()
    outcome = await agent.attempt(agent.request(), 2)
    assert "read-tree" in asked()
    changed = git(bench.folder.repository.path, "diff", "--name-only", agent.assignment.start_commit, outcome.commit)
    assert changed.split() == ["src/a.py"]
    assert not (agent.workspace / "half.txt").exists()


async def test_an_index_that_somebody_changed_is_brought_back(make_bench: MakeBench) -> None:
    bench, agent = await begun(make_bench, does(EDIT))
    (agent.workspace / "docs/guide.md").write_text("changed by somebody\n")
    git(agent.workspace, "rm", "-q", "--cached", "src/b.py")
    await agent.turn()
    changed = git(
        bench.folder.repository.path, "diff", "--name-status", agent.assignment.start_commit, agent.state.commit
    )
    assert changed.split() == ["M", "docs/guide.md", "M", "src/a.py"]


def test_status_tells_what_differs_on_disk_only() -> None:
    fields = "N... 100644 100644 100644 " + "0" * 40 + " " + "1" * 40
    entries = [
        f"1 .M {fields} a b",
        f"1 M. {fields} staged",
        f"1 AD {fields} gone",
        f"1 .T {fields} link",
        "? new\nline",
    ]
    assert parse_status("\0".join([*entries, ""]).encode()) == {
        b"a b": ChangeKind.MODIFIED,
        b"gone": ChangeKind.DELETED,
        b"link": ChangeKind.TYPE,
        b"new\nline": ChangeKind.ADDED,
    }


def test_only_a_changed_content_has_one_to_compare_with() -> None:
    fields, other_mode = (f"N... 100644 100644 {mode} {'0' * 40} {'1' * 40}" for mode in ("100644", "100755"))
    entries = [f"1 .M {fields} a b", f"1 .M {other_mode} tool", f"1 .D {fields} gone", f"1 .T {fields} link", "? new"]
    assert contents_before("\0".join([*entries, ""]).encode()) == {b"a b": "1" * 40}


def test_a_known_tree_asks_about_single_paths_until_rules_or_numbers_say_otherwise() -> None:
    tree = KnownTree(commit="c", index=(1,), found={b"a": ChangeKind.ADDED})
    tree.wrote(["a", "b"])
    assert tree.named() == [b"a", b"b"]
    tree.listed({b"b": ChangeKind.MODIFIED}, {}, [b"a", b"b"])
    assert tree.found == {b"b": ChangeKind.MODIFIED}
    tree.wrote(f"many/{n}" for n in range(500))
    assert tree.named() is None
    tree.listed({}, {b"n/": "a git repository of its own"}, None)
    assert (tree.found, tree.named()) == ({}, [])
    tree.wrote([str(Path("deep/.gitattributes"))])
    assert tree.named() is None
    tree.about("other")
    assert tree == KnownTree(commit="other", start="other")
