"""Git LFS without git-lfs: the filter that our git runs for files with `filter=lfs`, and the stores it works with.

Git starts this file as a program of its own, once per command that needs it, so it imports the standard library only.
A checkout turns a pointer into the content that a store holds, a commit turns content into its pointer and keeps the
content in the task's own store. What no store holds, and what was committed without a pointer, stays as it is.
"""

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

LONGEST_POINTER_BYTES = 150
SHORTEST_POINTER_BYTES = 126
BORROWED = "borrowed.json"
"""In the task's store: the folders of the stores of others, which are only read."""
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (0|[1-9][0-9]{0,18})\n"
)
_PACKET_BYTES = 65_516
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Pointer:
    """What is committed in place of a file's content: the content's SHA-256 and its size."""

    oid: str
    size_bytes: int

    @classmethod
    def read(cls, text: bytes) -> "Pointer | None":
        """The pointer that `text` is, in exactly the form that git-lfs writes; None for anything else."""
        found = _POINTER.fullmatch(text) if len(text) <= LONGEST_POINTER_BYTES else None
        return cls(found[1].decode(), int(found[2])) if found else None

    def text(self) -> bytes:
        """The pointer as it is committed."""
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.oid}\nsize {self.size_bytes}\n".encode()


@dataclass(frozen=True)
class LfsStore:
    """A folder of objects as git-lfs lays it out: `objects/aa/bb/<sha256>`."""

    folder: Path

    def place(self, pointer: Pointer) -> Path:
        """Where the content of a pointer is, if it is there."""
        return self.folder / "objects" / pointer.oid[:2] / pointer.oid[2:4] / pointer.oid

    def opened(self, pointer: Pointer) -> BinaryIO | None:
        """The content, whose size and SHA-256 were checked; None where it is missing, unreadable or wrong."""
        place = self.place(pointer)
        try:
            if not place.is_file():
                return None
            file = place.open("rb")
        except OSError:
            return None
        try:
            right = os.fstat(file.fileno()).st_size == pointer.size_bytes
            if right and hashlib.file_digest(file, "sha256").hexdigest() == pointer.oid:
                file.seek(0)
                return file
        except OSError:
            pass
        file.close()
        return None

    def holds(self, pointer: Pointer) -> bool:
        """Whether the content is there, and right."""
        if (file := self.opened(pointer)) is None:
            return False
        file.close()
        return True

    def written(self, pieces: Iterator[bytes]) -> tuple[Path, Pointer]:
        """A new file of the store that nothing names yet, and what points to it."""
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        digest, size_bytes = hashlib.sha256(), 0
        descriptor, name = tempfile.mkstemp(dir=self.folder / "tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                for piece in pieces:
                    digest.update(piece)
                    size_bytes += len(piece)
                    file.write(piece)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return Path(name), Pointer(digest.hexdigest(), size_bytes)

    def keep(self, written: Path, pointer: Pointer) -> None:
        """Put what `written` gave where it belongs."""
        place = self.place(pointer)
        place.parent.mkdir(parents=True, exist_ok=True)
        written.chmod(0o644)
        written.replace(place)


class LfsFilter:
    """Content into pointers and back. `own` is the task's store: what is new is put there."""

    def __init__(self, own: Path) -> None:
        self._own = LfsStore(own)
        try:
            borrowed = json.loads((own / BORROWED).read_text("utf-8"))
        except FileNotFoundError:
            borrowed = []
        self._stores = (self._own, *(LfsStore(Path(folder)) for folder in borrowed))

    def smudge(self, path: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """What a checkout puts into the file for what is committed."""
        committed = b"".join(pieces)
        pointer = Pointer.read(committed)
        if pointer is not None:
            opened = (store.opened(pointer) for store in self._stores)
            if (file := next((file for file in opened if file is not None), None)) is not None:
                return all_of(file)
        elif committed:
            mark = self._without_pointer(path, hashlib.sha256(committed).hexdigest())
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        return iter((committed,))

    def clean(self, path: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """What is committed for the content of the file."""
        written, pointer = self._own.written(pieces)
        try:
            if pointer.size_bytes <= LONGEST_POINTER_BYTES:
                content = written.read_bytes()
                if not content or Pointer.read(content) is not None:
                    return iter((content,))
            if self._without_pointer(path, pointer.oid).exists():
                return all_of(written.open("rb"))
            if not any(store.holds(pointer) for store in self._stores):
                self._own.keep(written, pointer)
            return iter((pointer.text(),))
        finally:
            written.unlink(missing_ok=True)

    def _without_pointer(self, path: bytes, digest: str) -> Path:
        """A mark: this content of this file was committed as it is, so unchanged it must stay so."""
        return self._own.folder / "without-pointer" / hashlib.sha256(path + b"\0" + digest.encode()).hexdigest()


def serve(own: Path, source: BinaryIO, target: BinaryIO) -> None:
    """Answer git until it closes `source`: its protocol of long running filters, version 2."""
    packets = _Packets(source, target)
    if packets.lines() != [b"git-filter-client", b"version=2"]:
        raise SystemExit("this is a filter that git runs")
    packets.tell(b"git-filter-server", b"version=2")
    packets.lines()
    packets.tell(b"capability=clean", b"capability=smudge")
    filters = LfsFilter(own)
    commands: dict[bytes, Callable[[bytes, Iterator[bytes]], Iterator[bytes]]] = {
        b"clean": filters.clean,
        b"smudge": filters.smudge,
    }
    while asked := dict(line.partition(b"=")[::2] for line in packets.lines()):
        given = packets.content()
        try:
            answer = commands[asked[b"command"]](asked[b"pathname"], given)
        except OSError as error:
            sys.stderr.write(f"Git LFS: {error}\n")
            for _ in given:
                pass
            packets.tell(b"status=error")
            continue
        packets.tell(b"status=success")
        packets.give(answer)
        packets.tell()


class _Packets:
    """Lines and contents as git sends them: each with its length before it, ended by an empty one."""

    def __init__(self, source: BinaryIO, target: BinaryIO) -> None:
        self._source, self._target = source, target

    def lines(self) -> list[bytes]:
        """The next list; empty at the end of everything."""
        return [packet.removesuffix(b"\n") for packet in self.content()]

    def content(self) -> Iterator[bytes]:
        while packet := self._next():
            yield packet

    def _next(self) -> bytes:
        length = int(self._source.read(4) or b"0", 16)
        return self._source.read(length - 4) if length > 4 else b""

    def tell(self, *lines: bytes) -> None:
        self.give(line + b"\n" for line in lines)

    def give(self, pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            for start in range(0, len(piece), _PACKET_BYTES):
                part = piece[start : start + _PACKET_BYTES]
                self._target.write(b"%04x" % (len(part) + 4) + part)
        self._target.write(b"0000")
        self._target.flush()


def all_of(file: BinaryIO) -> Iterator[bytes]:
    """The content of an open file in pieces; closed at its end."""
    with file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def main(arguments: Sequence[str]) -> None:
    """The program: its one argument is the folder of the task's store."""
    serve(Path(arguments[0]), sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main(sys.argv[1:])
