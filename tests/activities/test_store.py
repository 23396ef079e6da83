"""Blobs and journal on disk: whole or not at all, verified, and the first writer wins."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverRetrieveContext, StorageDriverStoreContext, StorageDriverWorkflowInfo

from activities.store import LostBlobError, PayloadStorage, Store

RACE = """
import sys
from pathlib import Path
from activities.store import Store
store = Store(Path(sys.argv[1]))
print("\\n".join(store.enter(f"turn {number}", sys.argv[2].encode()).decode() for number in range(60)))
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def only_file(folder: Path) -> Path:
    (found,) = [path for path in folder.rglob("*") if path.is_file()]
    return found


@pytest.mark.parametrize("data", [b"", b"x", b"\0\xff" * 100_000])
def test_a_blob_comes_back(store: Store, tmp_path: Path, data: bytes) -> None:
    name = store.put(data)
    assert store.put(data) == name
    assert Store(tmp_path / "store").get(name) == data
    only_file(tmp_path)


@pytest.mark.parametrize("damaged", [b"", b"conten", b"contenT", b"content and more"])
def test_a_damaged_blob_is_found_out_and_can_be_stored_again(store: Store, tmp_path: Path, damaged: bytes) -> None:
    name = store.put(b"content")
    only_file(tmp_path).write_bytes(damaged)
    with pytest.raises(LostBlobError, match="damaged"):
        store.get(name)
    assert store.put(b"content") == name
    assert store.get(name) == b"content"


def test_a_missing_blob_is_told(store: Store, tmp_path: Path) -> None:
    name = store.put(b"content")
    only_file(tmp_path).unlink()
    with pytest.raises(LostBlobError, match="missing"):
        store.get(name)


def test_nobody_else_may_look(store: Store, tmp_path: Path) -> None:
    store.put(b"content")
    assert only_file(tmp_path).stat().st_mode & 0o077 == 0


def test_the_first_entry_holds(store: Store) -> None:
    assert store.entry("a") is None
    assert store.enter("a", b"1") == b"1"
    assert store.enter("a", b"2") == b"1"
    assert store.entry("a") == b"1"
    assert store.entry("b") is None


def test_a_failed_write_leaves_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (lambda: store.put(b"content"), lambda: store.enter("a", b"1")):
        with pytest.raises(OSError, match="No space"):
            write()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert store.entry("a") is None


def test_processes_that_race_agree_on_every_entry(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACE, str(tmp_path)]
    racers = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in ("one", "two")]
    told = [racer.communicate(timeout=60)[0].splitlines() for racer in racers]
    assert told[0] == told[1]
    assert len(told[0]) == 60
    assert set(told[0]) <= {"one", "two"}


def test_large_payloads_travel_by_reference(tmp_path: Path) -> None:
    async def there_and_back(payloads: list[Payload]) -> list[Payload]:
        driver = PayloadStorage(tmp_path)
        claims = await driver.store(StorageDriverStoreContext(), payloads)
        assert all(len(str(claim.claim_data)) < 200 for claim in claims)
        return await PayloadStorage(tmp_path).retrieve(StorageDriverRetrieveContext(), claims)

    payloads = [Payload(metadata={"encoding": b"json/plain"}, data=b"x" * 3_000_000), Payload(data=b"")]
    assert asyncio.run(there_and_back(payloads)) == payloads


def test_payloads_of_a_task_and_its_agents_lie_together(tmp_path: Path) -> None:
    async def store(workflow_id: str) -> Payload:
        driver = PayloadStorage(tmp_path)
        target = StorageDriverWorkflowInfo(namespace="default", id=workflow_id)
        claims = await driver.store(StorageDriverStoreContext(target=target), [Payload(data=b"same")])
        [payload] = await driver.retrieve(StorageDriverRetrieveContext(), claims)
        return payload

    for workflow_id in ("one", "one/step-1", "two", "../../out", "not/../a/task/.."):
        assert asyncio.run(store(workflow_id)).data == b"same"
    found = sorted(str(path.relative_to(tmp_path).parent.parent) for path in tmp_path.rglob("*") if path.is_file())
    assert found == ["blobs", "tasks/not/blobs", "tasks/one/blobs", "tasks/two/blobs"]


def test_a_damaged_journal_entry_counts_as_none_and_is_written_anew(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.enter("turn", b"paid")
    path = next(path for path in (tmp_path / "journal").rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-1] + b"X")
    assert store.entry("turn") is None
    assert store.enter("turn", b"again") == b"again"
    assert store.enter("turn", b"late") == b"again"
