"""Programs whose stdout is data that we read: git, mostly.

They are many and short, so each is started and waited for in a thread: this costs the event loop a fifth of what its
own child processes do (a watching thread and two pipes to follow for each). What a program started and left is ended
with it, when it reaches its time limit, and when the caller is cancelled.
"""

import asyncio
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Required, TypedDict, TypeVar, Unpack

from activities.output_buffer import READ_BYTES, OutputBuffer
from activities.process_groups import GRACE_SECONDS, TAG_VARIABLE, ProcessGroup, end_group, has_members

CAPTURE_LIMIT_BYTES = 256_000_000
ERRORS_LIMIT_BYTES = 50_000
DRAIN_SECONDS = 0.25
"""How long the last output may take after the program ended, before what holds the pipe is ended."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of shells for a program that is missing or cannot be started."""
POLL_SECONDS = 0.1
"""How often a program that runs long is looked at: whether its caller still wants it."""
Result = TypeVar("Result")
_THREADS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="programs")


class Options(TypedDict, total=False):
    """Of `Caller.capture`."""

    cwd: Required[Path]
    environment: Required[Mapping[str, str]]
    time_limit: Required[timedelta]
    stdin: bytes | None
    output_limit_bytes: int
    keep_open: Sequence[int]


@dataclass(frozen=True)
class Captured:
    """The streams of a program apart; `left_out_bytes` counts what `stdout` lacks at its end."""

    exit_code: int
    stdout: bytes
    stderr: str
    timed_out: bool
    left_out_bytes: int


class Caller:
    """Runs programs one after the other for `in_a_thread`. Blocks."""

    def __init__(self) -> None:
        self._current: _Program | None = None
        self._stopped = False
        self.left: list[ProcessGroup] = []
        """Groups of programs that ended and left something running."""

    def capture(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        time_limit: timedelta,
        stdin: bytes | None = None,
        output_limit_bytes: int = CAPTURE_LIMIT_BYTES,
        keep_open: Sequence[int] = (),
    ) -> Captured:
        """Run a program. The beginning of its stdout is kept when it is over the limit; one that cannot be started is a
        result (127, 126). `exit_code` is 128 + n after signal n.

        `keep_open` are descriptors the program inherits: a lock's, so that the lock outlives us as long as it works.
        Raises NotADirectoryError when `cwd` is no folder, CancelledError when nobody waits for it any more.
        """
        output = OutputBuffer(output_limit_bytes, head_only=True)
        program = self._current = _Program(list(argv), cwd, environment, stdin, output, tuple(keep_open))
        if self._stopped:
            raise CancelledError
        exit_code = program.run(time_limit.total_seconds())
        if program.left_something:
            self.left.append(ProcessGroup(group_id=program.process_id, started_at=0.0, tag=program.tag))
        return Captured(exit_code, output.data(), program.errors.text(), program.timed_out, output.left_out_bytes)

    def stop(self) -> None:
        """End the program that runs, and start no other."""
        self._stopped = True
        if self._current is not None:
            self._current.stop()


async def in_a_thread(work: Callable[[Caller], Result]) -> Result:
    """What `work` gives, which may run several programs in a row. It is over when this is, with all that its programs
    left running, however often the caller is cancelled."""
    caller = Caller()
    job = _THREADS.submit(work, caller)
    ending = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(ending)
    finally:
        if not ending.done():
            caller.stop()
            job.cancel()
        if not ending.done() or caller.left:
            await _in_any_case(_over(ending, caller))


async def _over(ending: "asyncio.Future[Any]", caller: Caller) -> None:
    await asyncio.wait({ending})
    for group in caller.left:
        await end_group(group)


async def _in_any_case(rest: Coroutine[Any, Any, None]) -> None:
    """Do this to its end; CancelledError comes after it."""
    doing, cancelled = asyncio.ensure_future(rest), False
    while not doing.done():
        try:
            await asyncio.wait({doing})
        except asyncio.CancelledError:
            cancelled = True
    doing.result()
    if cancelled:
        raise asyncio.CancelledError


async def capture(argv: Sequence[str], **options: Unpack[Options]) -> Captured:
    """`Caller.capture` of one program, without blocking."""
    return await in_a_thread(lambda caller: caller.capture(argv, **options))


@dataclass
class _Program:
    """One run of a program, in a thread from its start to its end."""

    argv: list[str]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes | None
    output: OutputBuffer
    keep_open: tuple[int, ...]
    errors: OutputBuffer = field(default_factory=lambda: OutputBuffer(ERRORS_LIMIT_BYTES))
    tag: str = field(default_factory=lambda: secrets.token_hex(12))
    timed_out: bool = False
    process_id: int = 0
    _stopped: bool = False

    def run(self, seconds: float) -> int:
        """The exit code."""
        if not self.cwd.is_dir():
            raise NotADirectoryError(f"cannot run {self.argv[0]}: the folder {self.cwd} does not exist")
        with ExitStack() as stack:
            try:
                process = self._start(stack)
            except OSError as error:  # missing, not executable, no program at all, too long arguments
                self.errors.feed(f"{self.argv[0]}: {error.strerror}\n".encode())
                return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            self.process_id = process.pid
            try:
                self._follow(process, stack, seconds)
                code = process.wait()
            finally:
                if process.returncode is None:
                    _signal(process.pid, signal.SIGKILL)
                    process.wait()
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """End it now, if it runs."""
        self._stopped = True

    @property
    def left_something(self) -> bool:
        """Whether a process that it started is still there."""
        return bool(self.process_id) and has_members(self.process_id)

    def _start(self, stack: ExitStack) -> "subprocess.Popen[bytes]":
        source: IO[bytes] | int = subprocess.DEVNULL
        if self.stdin:
            # A file, not a pipe: a program that does not read it cannot block us.
            source = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
            source.write(self.stdin)
            source.seek(0)
        return stack.enter_context(
            subprocess.Popen(
                self.argv,
                cwd=self.cwd,
                env={**self.environment, TAG_VARIABLE: self.tag},
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                pass_fds=self.keep_open,
            )
        )

    def _follow(self, process: "subprocess.Popen[bytes]", stack: ExitStack, seconds: float) -> None:
        """Read both streams until the program has ended, and see to it that it ends when its time is over."""
        deadline, signals = time.monotonic() + seconds, [signal.SIGKILL, signal.SIGTERM]
        selector = stack.enter_context(selectors.DefaultSelector())
        streams = {process.stdout: self.output, process.stderr: self.errors}
        for stream, buffer in streams.items():
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, buffer)
        _register_end(process, selector, stack)
        open_streams, ended = len(streams), False
        while open_streams or not ended:
            left = deadline - time.monotonic()
            if (left <= 0 or self._stopped) and signals and not ended:
                self.timed_out = self.timed_out or not self._stopped
                self._stopped = False
                _signal(process.pid, signals.pop())
                deadline, left = time.monotonic() + GRACE_SECONDS, GRACE_SECONDS
            elif left <= 0:
                return
            for key, _ in selector.select(min(left, POLL_SECONDS)):
                data = os.read(key.fd, READ_BYTES) if key.data is not None else b""
                if data:
                    key.data.feed(data)
                    continue
                selector.unregister(key.fileobj)
                open_streams -= key.data is not None
            if not ended and process.poll() is not None:
                # What it started may hold a pipe open.
                ended, deadline = True, min(deadline, time.monotonic() + DRAIN_SECONDS)


def _register_end(process: "subprocess.Popen[bytes]", selector: selectors.BaseSelector, stack: ExitStack) -> None:
    """Where the system can, have the selector wake up at the program's end; elsewhere it is looked for in turns."""
    if sys.platform == "linux":
        descriptor = os.pidfd_open(process.pid)
        stack.callback(os.close, descriptor)
        selector.register(descriptor, selectors.EVENT_READ, None)


def _signal(group_id: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group_id, number)
