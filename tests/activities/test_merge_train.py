"""Several merges in one go come to what single ones in that order come to, also where they are killed in the middle."""

import asyncio
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from temporalio.testing import ActivityEnvironment

from activities.git import GitError
from activities.merge_train import MergeTrain
from baton import trace
from baton.layout import BASE
from baton.messages import MergedStep, MergeStep, MergeSteps
from tests.activities.test_merging import BASE as FILES
from tests.activities.test_merging import Bench, Write, all_of, drop, git, lines, move, put


class Killed(BaseException):
    """The process ends here."""


def requests(onto: str, *steps: int | tuple[int, ...]) -> tuple[MergeStep, ...]:
    """Merges of these steps, of several branches where the steps of those are named after it."""
    named = [(step, (step,)) if isinstance(step, int) else (step[0], step) for step in steps]
    return tuple(
        MergeStep(
            task_id="task",
            onto=onto,
            branches=tuple(f"step-{branch}" for branch in branches),
            step=step,
            subject=f"Step {step}",
        )
        for step, branches in named
    )


async def together(bench: Bench, merges: Sequence[MergeStep], attempt: int = 1) -> tuple[MergedStep, ...]:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, attempt=attempt)
    request = MergeSteps(task_id="task", merges=tuple(merges))
    merged: tuple[MergedStep, ...] = await environment.run(bench.merging.merge_steps, request)
    return merged


async def one_by_one(bench: Bench, merges: Sequence[MergeStep]) -> tuple[MergedStep, ...]:
    done: list[MergedStep] = []
    for request in merges:
        onto = done[-1].commit if done else request.onto
        done.append(await bench.run(bench.merging.merge_step, request.model_copy(update={"onto": onto})))
    return tuple(done)


def told(bench: Bench, merged: Sequence[MergedStep]) -> list[Any]:
    """The outcomes, with trees in the place of commits: those hold times."""
    return [
        (
            git(bench.repository.path, "rev-parse", f"{one.commit}^{{tree}}"),
            one.model_copy(
                update={
                    "commit": "",
                    "conflict": one.conflict and one.conflict.model_copy(update={"head": ""}),
                }
            ),
        )
        for one in merged
    ]


def log(bench: Bench) -> list[str]:
    return git(bench.repository.path, "log", "--reverse", "--format=%T %B", f"{BASE}..result").splitlines()


def copied(bench: Bench, state: Path) -> Bench:
    """The same task on another host."""
    shutil.copytree(bench.tasks.state, state, symlinks=True)
    other = Bench(state)
    other.base = bench.base
    return other


async def made(state: Path, project: Path, *steps: Write) -> Bench:
    bench = Bench(state)
    await bench.create(project, FILES)
    for number, write in enumerate(steps, 1):
        await bench.step(number, write)
    return bench


def nothing(_: Path) -> None:
    """A step that changes nothing."""


STEPS = (
    put("a.txt", "one\n"),
    all_of(put("f.txt", lines(n2="two")), drop("b.bin")),
    put("f.txt", lines(n2="another")),
    nothing,
    all_of(move("old/x.txt", "moved.txt"), put("f.txt", lines(n18="five"))),
    put("a.txt", "one\n"),
    put("a.txt", "seven\n"),
    put("deep/er/h.txt", "eight\n"),
)
ALL = (1, 2, 3, 4, 5, 6, 7, 8)
KINDS = ["merged", "merged", "conflict", "nothing", "merged", "nothing", "conflict", "merged"]


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    return await made(tmp_path / "state", tmp_path / "project", *STEPS)


def kinds(merged: Sequence[MergedStep]) -> list[str]:
    return ["merged" if one.merged else "conflict" if one.conflicts else "nothing" for one in merged]


async def test_several_merges_come_to_what_single_ones_come_to(bench: Bench, tmp_path: Path) -> None:
    other = copied(bench, tmp_path / "other")
    merges = requests(bench.base, *ALL)
    merged, single = await together(bench, merges), await one_by_one(other, merges)
    assert kinds(merged) == KINDS
    assert told(bench, merged) == told(other, single)
    assert log(bench) == log(other)
    assert merged[-1].commit == await bench.repository.result()
    assert [one.conflict and one.conflict.others for one in merged][2:7:4] == [(2,), (1,)]
    lines_told = trace.parse((bench.folder.artifacts / trace.NAME).read_text()).of("merge")
    assert [(line.step, line.outcome) for line in lines_told] == [
        (step, kind.replace("nothing", "nothing to merge")) for step, kind in zip(ALL, KINDS, strict=True)
    ]


async def test_shards_and_what_undoes_an_earlier_step(bench: Bench, tmp_path: Path) -> None:
    await bench.merge(2)
    head = await bench.repository.result()
    workspace = await bench.repository.open_workspace("step-9", head, "step-9")
    put("f.txt", FILES["f.txt"])(workspace)
    await bench.repository.checkpoint(workspace, "turn", {})
    other = copied(bench, tmp_path / "other")
    merges = requests(head, (1, 8), 9, 7)
    merged, single = await together(bench, merges), await one_by_one(other, merges)
    assert told(bench, merged) == told(other, single)
    assert [one.undoes for one in merged] == [{}, {2: ("f.txt",)}, {}]
    assert kinds(merged) == ["merged", "merged", "conflict"]


PATHS = ("a", "b", "d/a", "d/b", "d/e/f", "odd name")
CHANGES = st.dictionaries(
    st.sampled_from(PATHS), st.sampled_from(["1\n2\n3\n", "1\n2\nx\n", "y\n2\n3\n", None]), max_size=3
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(CHANGES, min_size=2, max_size=5))
def test_any_steps_come_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, str | None]]
) -> None:
    def writing(changes: dict[str, str | None]) -> Write:
        def write(root: Path) -> None:
            for name, text in changes.items():
                if text is not None:
                    put(name, text)(root)
                elif (root / name).exists():
                    drop(name)(root)

        return write

    async def compare() -> None:
        place = tmp_path_factory.mktemp("any")
        bench = Bench(place / "state")
        await bench.create(place / "project", {"a": "1\n2\n3\n", "d/a": "1\n2\n3\n"})
        for number, changes in enumerate(steps, 1):
            await bench.step(number, writing(changes))
        other, again = copied(bench, place / "other"), copied(bench, place / "again")
        merges = requests(bench.base, *range(1, len(steps) + 1))
        single = await one_by_one(other, merges)
        assert told(bench, await together(bench, merges)) == told(other, single)
        await together(again, merges)
        assert told(again, await together(again, merges, attempt=2)) == told(other, single)
        shutil.rmtree(place)

    asyncio.run(compare())


# Kills


async def test_a_kill_before_the_result_moves_leaves_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = copied(bench, tmp_path / "other")
    merges = requests(bench.base, *ALL)

    async def killed(self: MergeTrain) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(MergeTrain, "move", killed)
        with pytest.raises(Killed):
            await together(bench, merges)
    assert await bench.repository.result() == bench.base
    again = await together(bench, merges, attempt=2)
    assert told(bench, again) == told(other, await one_by_one(other, merges))
    assert log(bench) == log(other)


async def test_a_kill_after_the_result_moved_finds_the_same_outcomes(bench: Bench) -> None:
    merges = requests(bench.base, *ALL)
    first = await together(bench, merges)
    result = await bench.repository.result()
    assert await together(bench, merges, attempt=2) == first
    assert await bench.repository.result() == result
    lines_told = trace.parse((bench.folder.artifacts / trace.NAME).read_text()).of("merge")
    assert [line.step for line in lines_told] == list(ALL)


async def test_a_reset_before_the_first_attempt_begins_there(bench: Bench) -> None:
    """What was on the result is put aside, whichever attempt finds it."""
    await together(bench, requests(bench.base, 8, 1))
    before = await bench.repository.result()
    merged = await together(bench, requests(bench.base, 1, 2), attempt=2)
    assert kinds(merged) == ["merged", "merged"]
    assert merged[-1].commit == await bench.repository.result()
    assert len(log(bench)) // 4 == 3
    again = await together(bench, requests(bench.base, 5, 2))
    assert kinds(again) == ["merged", "merged"]
    subjects = git(bench.repository.path, "log", "--format=%s", f"{BASE}..result").splitlines()
    assert subjects == ["Step 2", "Step 5"]
    kept = git(bench.repository.path, "for-each-ref", "--format=%(refname)", "--contains", before, "refs/baton/aside")
    assert kept


# Failures


async def test_a_merge_that_fails_takes_none_of_those_before_it_along(bench: Bench) -> None:
    """Whoever asks again for the rest hears of its failure."""
    git(bench.repository.path, "update-ref", "-d", "refs/heads/step-5")
    merged = await together(bench, requests(bench.base, *ALL))
    assert kinds(merged) == KINDS[:4]
    assert merged[-1].commit == await bench.repository.result()
    with pytest.raises(GitError):
        await together(bench, requests(merged[-1].commit, 5, 6, 7, 8))
    assert await bench.repository.result() == merged[-1].commit
    rest = await together(bench, requests(merged[-1].commit, 6, 7, 8))
    assert kinds(rest) == KINDS[5:]


async def test_a_train_is_no_longer_than_its_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activities.merging.TOGETHER_SECONDS", 0.0)
    assert kinds(await together(bench, requests(bench.base, *ALL))) == KINDS[:1]
