"""Blobs and the journal of a task, on disk.

A blob is named by the SHA-256 of its bytes and verified when read. A journal entry is written once: the first writer
wins, and everybody after it gets the first one's value. Both appear whole or not at all, also after a power cut; an
entry that was not waited for may be gone after one.
"""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from baton.layout import task_payloads
from baton.names import task_id_fault


class LostBlobError(Exception):
    """A blob is missing or its bytes are not the ones that were stored."""


class Store:
    """Blobs and journal below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        """Store bytes; returns their name (64 hexadecimal digits)."""
        name = name_of(data)
        path = self._blob_path(name)
        if not _holds(path, data):
            write_atomically(path, data, replace=True)
        return name

    def get(self, name: str) -> bytes:
        """The bytes of this name. Raises `LostBlobError` when they are missing or damaged."""
        try:
            data = self._blob_path(name).read_bytes()
        except FileNotFoundError:
            raise LostBlobError(f"blob {name} is missing") from None
        if hashlib.sha256(data).hexdigest() != name:
            raise LostBlobError(f"blob {name} is damaged")
        return data

    def entry(self, key: str) -> bytes | None:
        """The journal entry of this key, or None. A damaged one counts as none: what it told is found out again."""
        path = self._entry_path(key)
        try:
            digest, _, data = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).hexdigest().encode() != digest:
            path.unlink(missing_ok=True)
            return None
        return data

    def enter(self, key: str, data: bytes, *, durable: bool = True) -> bytes:
        """Write a journal entry; returns the entry that holds, which is an earlier one where there is one. `durable`:
        it is over when the disk has it."""
        digest = hashlib.sha256(data).hexdigest().encode()
        while (known := self.entry(key)) is None:
            if write_atomically(self._entry_path(key), digest + b"\n" + data, replace=False, durable=durable):
                return data
        return known

    def _blob_path(self, name: str) -> Path:
        return self._folder / "blobs" / name[:2] / name[2:]

    def _entry_path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._folder / "journal" / name[:2] / name[2:]


class PayloadStorage(StorageDriver):
    """The SDK's safety net for large payloads: they go to a folder, histories keep a reference."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def name(self) -> str:
        """The name that references carry."""
        return "baton-folder"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Store the payloads and name each by its digest."""
        target = context.target
        workflow_id = target.id if isinstance(target, StorageDriverWorkflowInfo) else None
        store = self._of(workflow_id or "")
        names = [await asyncio.to_thread(store.put, payload.SerializeToString()) for payload in payloads]
        claim = {"workflow_id": workflow_id} if workflow_id else {}
        return [StorageDriverClaim(claim_data={"sha256": name, **claim}) for name in names]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """The payloads of these references."""
        found = []
        for claim in claims:
            store = self._of(claim.claim_data.get("workflow_id", ""))
            found.append(Payload.FromString(await asyncio.to_thread(store.get, claim.claim_data["sha256"])))
        return found

    def _of(self, workflow_id: str) -> Store:
        """Each task has a folder of its own, so that it can be removed with the task; the rest shares one."""
        folder = task_payloads(self._folder, workflow_id)
        return Store(folder if task_id_fault(folder.name) is None else self._folder)


def name_of(data: bytes) -> str:
    """The name of a blob with these bytes."""
    return hashlib.sha256(data).hexdigest()


def write_atomically(path: Path, data: bytes, *, replace: bool, durable: bool = True) -> bool:
    """Write a file that appears whole or not at all; one that is there stays unless it may be replaced. Whether it is
    ours now. `durable`: it survives a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        is_ours = replace or _link_first(temporary, path)
        if replace:
            temporary.replace(path)
        if durable:
            sync(path.parent)
        return is_ours
    finally:
        temporary.unlink(missing_ok=True)


def _holds(path: Path, data: bytes) -> bool:
    """Whether these bytes are in the file: one that was damaged is written again."""
    try:
        return path.read_bytes() == data
    except FileNotFoundError:
        return False


def _link_first(temporary: Path, path: Path) -> bool:
    """Give the file its name unless somebody was first."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    return True


def sync(path: Path) -> None:
    """Wait until a file is on the disk, or the names that a folder holds."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
