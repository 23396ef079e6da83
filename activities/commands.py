"""The one runner of child processes: `run` for commands of models and projects, `capture` for programs we read.

Each command gets its own session (no terminal), a file as its stdin, a time limit and bounded memory for its output.
When it ends, for whatever reason, cancellation included, everything that it started is ended too; nobody waits for a
pipe that a daemon holds open.
"""

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from activities.command_limits import CommandLimits
from activities.process_groups import TAG_VARIABLE, ProcessGroup, end_group, has_members
from activities.sandbox import Sandbox, find_sandbox
from baton.durations import Duration
from baton.models import Stored

__all__ = [
    "Captured",
    "CommandResult",
    "ProcessGroup",
    "Sandbox",
    "capture",
    "end_group",
    "find_sandbox",
    "run",
]

OUTPUT_LIMIT_BYTES = 50_000
CAPTURE_LIMIT_BYTES = 256_000_000
TRANSCRIPT_LIMIT_BYTES = 50_000_000
DRAIN_SECONDS = 0.25
"""How long the last output may take after the command ended, before what holds the pipe is ended."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of shells for a program that is missing or cannot be started; `run` keeps to them."""
_READ_BYTES = 65_536
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


class CommandResult(Stored):
    """How a command ended. `exit_code` is 128 + n after signal n, as in shells."""

    exit_code: int
    output: str
    timed_out: bool = False
    too_many_processes: bool = False
    left_out_bytes: int = 0
    duration: Duration


@dataclass(frozen=True)
class Captured:
    """The streams of a program apart; `left_out_bytes` counts what `stdout` lacks at its end."""

    exit_code: int
    stdout: bytes
    stderr: str
    timed_out: bool
    left_out_bytes: int


async def run(
    command: str | Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    time_limit: timedelta,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    stdin: bytes | None = None,
    on_start: Callable[[ProcessGroup], None] | None = None,
    on_output: Callable[[], None] | None = None,
    sandbox: Sandbox | None = None,
    transcript: Path | None = None,
    limits: CommandLimits | None = None,
) -> CommandResult:
    """Run a shell command (a string) or a program (a list) and give its two streams as one text.

    `on_start` gets the process group twice, to be recorded so that a later attempt can `end_group` it: before the start
    (no ids yet, the tag is enough) and after it; so no kill at any point leaves a process that nobody knows.
    `limits` of processes and memory are those of the host unless given.
    `on_output` is called whenever the command prints something. `transcript` receives the output as it is, up to 50 MB,
    for those who want more than the text cut in the middle.
    Raises NotADirectoryError when `cwd` is no folder; everything else is a result (127, 126: it did not start).
    """
    argv = _shell(command) if isinstance(command, str) else list(command)
    if sandbox is not None:
        argv = sandbox.argv(argv, cwd, environment)
    limits = limits or CommandLimits.of_host(os.environ)
    argv = limits.argv(argv)
    started = time.monotonic()
    with ExitStack() as stack:
        copy = stack.enter_context(transcript.open("wb")) if transcript else None
        output = _Output(output_limit_bytes, copy=copy, on_data=on_output)
        job = _Job(argv, cwd, environment, stdin, on_start, (output,), follow_strays=True, limits=limits)
        exit_code, timed_out = await job.finish(time_limit)
    return CommandResult(
        exit_code=exit_code,
        output=output.text(),
        timed_out=timed_out,
        too_many_processes=job.overrun,
        left_out_bytes=output.left_out_bytes,
        duration=timedelta(seconds=time.monotonic() - started),
    )


async def capture(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    time_limit: timedelta,
    stdin: bytes | None = None,
    output_limit_bytes: int = CAPTURE_LIMIT_BYTES,
    keep_open: Sequence[int] = (),
) -> Captured:
    """Run a program whose stdout is data. Its beginning is kept when it is over the limit. Raises as `run` does.

    `keep_open` are descriptors the program inherits: a lock's, so that the lock outlives us as long as it works.
    """
    output, errors = _Output(output_limit_bytes, head_only=True), _Output(OUTPUT_LIMIT_BYTES)
    job = _Job(list(argv), cwd, environment, stdin, None, (output, errors), keep_open=tuple(keep_open))
    exit_code, timed_out = await job.finish(time_limit)
    return Captured(exit_code, output.data(), errors.text(), timed_out, output.left_out_bytes)


@dataclass
class _Job:
    """One child process from start to end."""

    argv: list[str]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes | None
    on_start: Callable[[ProcessGroup], None] | None
    outputs: tuple["_Output", ...]
    keep_open: tuple[int, ...] = ()
    follow_strays: bool = False
    limits: CommandLimits | None = None
    overrun: bool = False
    tag: str = field(default_factory=lambda: secrets.token_hex(12))

    async def finish(self, time_limit: timedelta) -> tuple[int, bool]:
        """Start, wait, end everything. Returns the exit code and whether the time limit ended it."""
        if not self.cwd.is_dir():
            raise NotADirectoryError(f"cannot run {self.argv[0]}: the folder {self.cwd} does not exist")
        pipes: list[int] = []
        try:
            if self.on_start is not None:
                self.on_start(ProcessGroup(group_id=0, started_at=0.0, tag=self.tag))
            try:
                process = await self._start(pipes)
            except OSError as error:  # missing, not executable, no program at all, too long arguments
                self.outputs[-1].feed(f"{self.argv[0]}: {error.strerror}\n".encode())
                return (NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE), False
            return await self._follow(process, pipes, time_limit)
        finally:
            for pipe in pipes:
                asyncio.get_running_loop().remove_reader(pipe)
                os.close(pipe)

    async def _follow(
        self, process: asyncio.subprocess.Process, pipes: list[int], time_limit: timedelta
    ) -> tuple[int, bool]:
        group = ProcessGroup.led_by(process.pid, self.tag)
        timed_out = False
        try:
            if self.on_start is not None:
                self.on_start(group)
            drained = [self._drain(pipe, output) for pipe, output in zip(pipes, self.outputs, strict=True)]
            try:
                async with asyncio.timeout(time_limit.total_seconds()):
                    await self._ended(process, group)
            except TimeoutError:
                timed_out = True
                await end_group(group)
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await asyncio.gather(*(end.wait() for end in drained))
        finally:
            await self._end_rest(group, process)
        code = await process.wait()
        return (code if code >= 0 else 128 - code), timed_out

    async def _ended(self, process: asyncio.subprocess.Process, group: ProcessGroup) -> None:
        """Wait for the end, or bring it about at once where there are too many processes."""
        if self.limits is None:
            await process.wait()
            return
        ended, overrun = asyncio.ensure_future(process.wait()), asyncio.ensure_future(self.limits.overrun(process.pid))
        try:
            await asyncio.wait({ended, overrun}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self.overrun = True
                # The sandbox's first process takes all others with it, however fast they multiply.
                with suppress(ProcessLookupError):
                    os.killpg(group.group_id, signal.SIGKILL)
                await ended
        finally:
            overrun.cancel()
            ended.cancel()

    async def _start(self, pipes: list[int]) -> asyncio.subprocess.Process:
        writers: list[int] = []
        try:
            for _ in self.outputs:
                reader, writer = os.pipe()
                os.set_blocking(reader, False)
                pipes.append(reader)
                writers.append(writer)
            # A file, not a pipe, as stdin: a command that does not read it cannot block us.
            with tempfile.TemporaryFile() if self.stdin else Path(os.devnull).open("rb") as source:  # noqa: ASYNC230
                if self.stdin:
                    source.write(self.stdin)
                    source.seek(0)
                return await asyncio.create_subprocess_exec(
                    *self.argv,
                    cwd=self.cwd,
                    env={**self.environment, TAG_VARIABLE: self.tag},
                    stdin=source,
                    stdout=writers[0],
                    stderr=writers[-1],
                    start_new_session=True,
                    pass_fds=self.keep_open,
                )
        finally:
            for writer in writers:
                os.close(writer)

    def _drain(self, pipe: int, output: "_Output") -> asyncio.Event:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def read() -> None:
            with suppress(BlockingIOError):
                data = os.read(pipe, _READ_BYTES)
                if data:
                    output.feed(data)
                else:
                    loop.remove_reader(pipe)
                    ended.set()

        loop.add_reader(pipe, read)
        return ended

    async def _end_rest(self, group: ProcessGroup, process: asyncio.subprocess.Process) -> None:
        try:
            if self.follow_strays or process.returncode is None or has_members(group.group_id):
                await end_group(group)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(group.group_id, signal.SIGKILL)
            await asyncio.shield(process.wait())


@dataclass
class _Output:
    """Output in bounded memory: its head and its tail, or its head only."""

    limit_bytes: int
    head_only: bool = False
    copy: BinaryIO | None = None
    on_data: Callable[[], None] | None = None
    total_bytes: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
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
            if len(self._tail) > 2 * self._tail_limit + _READ_BYTES:
                del self._tail[: len(self._tail) - self._tail_limit]

    def data(self) -> bytes:
        return bytes(self._head)

    def text(self) -> str:
        if not self.left_out_bytes:
            return (self._head + self._tail).decode("utf-8", "replace")
        tail = bytes(self._tail[len(self._tail) - self._tail_limit :]).lstrip(_CONTINUATION_BYTES)
        head = _whole_characters(bytes(self._head))
        return f"{head}\n[… {self.left_out_bytes} bytes left out here …]\n{tail.decode('utf-8', 'replace')}"

    @property
    def left_out_bytes(self) -> int:
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


def _shell(command: str) -> list[str]:
    # Models and projects write for bash; a host without it still has the standard shell.
    return [shutil.which("bash") or "/bin/sh", "-c", command]
