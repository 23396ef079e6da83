"""The one runner of commands of models and projects; `programs` runs what only gives us data.

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
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from activities.command_limits import CommandLimits
from activities.output_buffer import READ_BYTES, OutputBuffer
from activities.process_groups import TAG_VARIABLE, ProcessGroup, end_group
from activities.programs import DRAIN_SECONDS, NOT_EXECUTABLE, NOT_FOUND
from activities.sandbox import Sandbox, find_sandbox
from baton.durations import Duration
from baton.models import Stored

__all__ = [
    "CommandResult",
    "ProcessGroup",
    "Sandbox",
    "end_group",
    "find_sandbox",
    "run",
]

OUTPUT_LIMIT_BYTES = 50_000


class CommandResult(Stored):
    """How a command ended. `exit_code` is 128 + n after signal n, as in shells."""

    exit_code: int
    output: str
    timed_out: bool = False
    too_many_processes: bool = False
    left_out_bytes: int = 0
    duration: Duration


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
    tag = secrets.token_hex(12)
    limits = (limits or CommandLimits.of_host(os.environ)).marked(tag)
    argv = limits.argv(argv)
    started = time.monotonic()
    with ExitStack() as stack:
        copy = stack.enter_context(transcript.open("wb")) if transcript else None
        output = OutputBuffer(output_limit_bytes, copy=copy, on_data=on_output)
        job = _Job(argv, cwd, environment, stdin, on_start, output, limits, tag)
        exit_code, timed_out = await job.finish(time_limit)
    return CommandResult(
        exit_code=exit_code,
        output=output.text(),
        timed_out=timed_out,
        too_many_processes=job.overrun,
        left_out_bytes=output.left_out_bytes,
        duration=timedelta(seconds=time.monotonic() - started),
    )


@dataclass
class _Job:
    """One child process from start to end."""

    argv: list[str]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes | None
    on_start: Callable[[ProcessGroup], None] | None
    output: OutputBuffer
    limits: CommandLimits
    tag: str
    overrun: bool = False

    @property
    def _memory_bytes(self) -> int:
        return self.limits.memory_bytes or 0

    async def finish(self, time_limit: timedelta) -> tuple[int, bool]:
        """Start, wait, end everything. Returns the exit code and whether the time limit ended it."""
        if not self.cwd.is_dir():
            raise NotADirectoryError(f"cannot run {self.argv[0]}: the folder {self.cwd} does not exist")
        if self.on_start is not None:
            self.on_start(ProcessGroup(group_id=0, started_at=0.0, tag=self.tag, memory_bytes=self._memory_bytes))
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            try:
                process = await self._start(writer)
            except OSError as error:  # missing, not executable, no program at all, too long arguments
                self.output.feed(f"{self.argv[0]}: {error.strerror}\n".encode())
                return (NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE), False
            return await self._follow(process, reader, time_limit)
        finally:
            asyncio.get_running_loop().remove_reader(reader)
            os.close(reader)

    async def _follow(self, process: asyncio.subprocess.Process, pipe: int, time_limit: timedelta) -> tuple[int, bool]:
        group = ProcessGroup.led_by(process.pid, self.tag, self._memory_bytes)
        timed_out = False
        try:
            if self.on_start is not None:
                self.on_start(group)
            drained = self._drain(pipe)
            try:
                async with asyncio.timeout(time_limit.total_seconds()):
                    await self._ended(process, group)
            except TimeoutError:
                timed_out = True
                await end_group(group)
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await drained.wait()
        finally:
            await self._end_rest(group, process)
        code = await process.wait()
        return (code if code >= 0 else 128 - code), timed_out

    async def _ended(self, process: asyncio.subprocess.Process, group: ProcessGroup) -> None:
        """Wait for the end, or bring it about at once where there are too many processes."""
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

    async def _start(self, writer: int) -> asyncio.subprocess.Process:
        try:
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
                    stdout=writer,
                    stderr=writer,
                    start_new_session=True,
                )
        finally:
            os.close(writer)

    def _drain(self, pipe: int) -> asyncio.Event:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def read() -> None:
            with suppress(BlockingIOError):
                data = os.read(pipe, READ_BYTES)
                if data:
                    self.output.feed(data)
                else:
                    loop.remove_reader(pipe)
                    ended.set()

        loop.add_reader(pipe, read)
        return ended

    async def _end_rest(self, group: ProcessGroup, process: asyncio.subprocess.Process) -> None:
        try:
            await end_group(group)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(group.group_id, signal.SIGKILL)
            await asyncio.shield(process.wait())


def _shell(command: str) -> list[str]:
    # Models and projects write for bash; a host without it still has the standard shell.
    return [shutil.which("bash") or "/bin/sh", "-c", command]
