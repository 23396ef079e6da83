"""Files in Git LFS: their content comes from the user's own store, and what is new goes there with the result.

Nothing is fetched over the network. The user's store is only read until the result is published; then it receives the
objects that the new branch names, as the repository receives its commits.
"""

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable
from pathlib import Path

from activities import lfs_filter
from activities.git import Git, path_text, split
from activities.lfs_filter import LfsStore, Pointer
from baton.layout import BASE
from baton.wording import counted

STORE = "lfs"
"""In the private repository, where git-lfs looks as well."""
SHOWN = 5


def filter_options(private: Path) -> tuple[str, ...]:
    """Options of git in a workspace. `required`: a filter that fails must not lead to content in a commit."""
    program = [sys.executable, "-I", "-S", lfs_filter.__file__, str(private / STORE)]
    return ("-c", f"filter.lfs.process={shlex.join(program)}", "-c", "filter.lfs.required=true")


async def borrow(
    git: Git, commit: str, files: Collection[str], read: Callable[[str], Awaitable[bytes]], source: Path | None
) -> list[str]:
    """Have the private repository `git` read the store of the user's checkout; a sentence for what is missing there."""
    attributes = [path for path in files if path.rsplit("/", 1)[-1] == ".gitattributes"]
    if not any([b"filter=lfs" in await read(path) for path in attributes]):
        return []
    own = git.cwd / STORE
    own.mkdir(exist_ok=True)
    stores = [await _store_of(Git(source, git.environment, own=False))] if source is not None else []
    (own / lfs_filter.BORROWED).write_text(json.dumps([str(store.folder) for store in stores]), "utf-8")
    listed = split(await git.output("ls-tree", "-r", "-z", "--long", commit))
    entries = [(facts.split(), path) for facts, _, path in (entry.partition(b"\t") for entry in listed)]
    small = {path: facts[2].decode() for facts, path in entries if _may_be_pointer(facts[3])}
    pointers = await _pointers(git, small.values())
    named = {path_text(path): pointers[blob] for path, blob in small.items() if blob in pointers}
    missing = await asyncio.to_thread(_missing, named, (LfsStore(own), *stores))
    if not missing:
        return []
    shown = ", ".join(missing[:SHOWN]) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
    place = "in a clone of it, and start the task there" if source is None else "in your checkout"
    told = (
        "files in Git LFS are only pointers in the workspaces, because their content is not on this host, or not whole"
    )
    return [f"{told}: {shown}. To have them: git lfs fetch, {place}"]


async def give_objects(git: Git, checkout: Path | None, commit: str) -> tuple[str, ...]:
    """Put the objects that came with `commit` into the store of the user's checkout; sentences on what was done."""
    own = LfsStore(git.cwd / STORE)
    if not await asyncio.to_thread((own.folder / "objects").is_dir):
        return ()
    # Every commit of the result, since any of them may be checked out.
    listed = (await git.output("rev-list", "--objects", f"{BASE}..{commit}")).splitlines()
    names = b"\n".join(line.split(b" ", 1)[0] for line in listed) + b"\n"
    facts = await git.output("cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", stdin=names)
    rows = [line.split() for line in facts.splitlines()]
    blobs = [row[0].decode() for row in rows if row[1] == b"blob" and _may_be_pointer(row[2])]
    pointers = set((await _pointers(git, blobs)).values())
    new = [pointer for pointer in pointers if await asyncio.to_thread(own.holds, pointer)]
    if not new:
        return ()
    told = f"the result changes files in Git LFS: {counted(len(new), 'new object')}"
    if checkout is None:
        return (f"{told} in {own.folder}",)
    target = await _store_of(Git(checkout, git.environment, own=False))
    try:
        await asyncio.to_thread(_copy, new, own, target)
    except OSError as error:
        return (f"{told} could not be put into {target.folder} ({error.strerror}); copy them from {own.folder}",)
    return (f"{told} in {target.folder}; git push uploads them where git-lfs is installed (else: git lfs push)",)


async def _store_of(git: Git) -> LfsStore:
    """The store of the repository that a checkout belongs to, which all its worktrees share."""
    common = Path(await git.text("rev-parse", "--path-format=absolute", "--git-common-dir"))
    configured = await git.value("config", "--type=path", "lfs.storage")
    return LfsStore(common / (configured or STORE))


async def _pointers(git: Git, blobs: Iterable[str]) -> dict[str, Pointer]:
    """Those of these blobs, all of them small, that are pointers."""
    wanted = sorted(set(blobs))
    if not wanted:
        return {}
    output = await git.output("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in wanted).encode())
    found, start = {}, 0
    for blob in wanted:
        end = output.index(b"\n", start)
        size_bytes = int(output[start:end].split()[2])
        if (pointer := Pointer.read(output[end + 1 : end + 1 + size_bytes])) is not None:
            found[blob] = pointer
        start = end + 1 + size_bytes + 1
    return found


def _may_be_pointer(size: bytes) -> bool:
    return size.isdigit() and lfs_filter.SHORTEST_POINTER_BYTES <= int(size) <= lfs_filter.LONGEST_POINTER_BYTES


def _missing(pointers: dict[str, Pointer], stores: Iterable[LfsStore]) -> list[str]:
    stores = tuple(stores)
    return [path for path, pointer in pointers.items() if not any(store.holds(pointer) for store in stores)]


def _copy(pointers: Iterable[Pointer], own: LfsStore, target: LfsStore) -> None:
    for pointer in pointers:
        if target.holds(pointer):
            continue
        with own.place(pointer).open("rb") as file:
            written, copied = target.written(lfs_filter.all_of(file))
        if copied == pointer:
            target.keep(written, pointer)
        else:
            written.unlink()
