"""Output of a process in bounded memory."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

TRANSCRIPT_LIMIT_BYTES = 50_000_000
READ_BYTES = 65_536
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


@dataclass
class OutputBuffer:
    """The head and the tail of what was fed, or its head only. `copy` gets all of it, up to 50 MB."""

    limit_bytes: int
    head_only: bool = False
    copy: BinaryIO | None = None
    on_data: Callable[[], None] | None = None
    total_bytes: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self.on_data is not None:
            self.on_data()
        if self.copy is not None and self.total_bytes < TRANSCRIPT_LIMIT_BYTES:
            self.copy.write(data)
        self.total_bytes += len(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room] if room > 0 else b""
        if not self.head_only:
            self._tail += data[max(room, 0) :]
            # Trimmed seldom, so that a flood costs one copy per half limit and not one per read.
            if len(self._tail) > 2 * self._tail_limit + READ_BYTES:
                del self._tail[: len(self._tail) - self._tail_limit]

    def data(self) -> bytes:
        """The head."""
        return bytes(self._head)

    def text(self) -> str:
        """Head and tail as text, with a note of what is missing between them."""
        if not self.left_out_bytes:
            return (self._head + self._tail).decode("utf-8", "replace")
        tail = bytes(self._tail[len(self._tail) - self._tail_limit :]).lstrip(_CONTINUATION_BYTES)
        head = _whole_characters(bytes(self._head))
        return f"{head}\n[… {self.left_out_bytes} bytes left out here …]\n{tail.decode('utf-8', 'replace')}"

    @property
    def left_out_bytes(self) -> int:
        """How many bytes are kept nowhere."""
        return max(0, self.total_bytes - self.limit_bytes)

    @property
    def _head_limit(self) -> int:
        return self.limit_bytes if self.head_only else self.limit_bytes // 2

    @property
    def _tail_limit(self) -> int:
        return self.limit_bytes - self._head_limit


def _whole_characters(data: bytes) -> str:
    """Decoded, without a character that the cut split."""
    for cut in range(min(4, len(data))):
        with suppress(UnicodeDecodeError):
            return data[: len(data) - cut].decode("utf-8")
    return data.decode("utf-8", "replace")
