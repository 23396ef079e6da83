"""The tool calls of one turn inside one workspace: checked, permitted, owned, done, and their secrets masked.

`Tools.call` never raises for what a model sent; it answers with a result that says what to do instead. The tools
that report or end an agent's work are not here: they touch no file.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from activities import commands, file_tools, submodule_writes
from activities.allowed_commands import AllowedCommands
from activities.confinement import Workspace
from activities.outputs import Outputs, is_output
from activities.process_groups import ProcessGroup
from activities.sandbox import Sandbox
from activities.search import Found, Search
from activities.secret_guard import SecretGuard, refusal
from activities.submodule_writes import submodule_of
from activities.text_files import cut_middle, decode
from activities.tool_result import CallRefused, NotOwned, ToolResult
from baton.ownership import Ownership, Refused
from baton.permissions import Denied, Permissions
from baton.redaction import is_secret_file, masked_file
from baton.settings import SandboxMode
from baton.tool_inputs import TIME_LIMIT_DEFAULT_MS, TIME_LIMIT_MAX_MS, Append, Bash, Edit, Glob, Grep, Read, Write
from baton.tool_schemas import WORKSPACE_TOOLS, ToolFault, parse

__all__ = ["ToolResult", "Tools"]

OUTPUT_LIMIT_BYTES = 2_000_000
"""Output of a command beyond this is lost; up to it, what the model does not see is kept in `ToolResult.whole`."""

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


class Tools:
    """The file tools and `bash` of one agent in one workspace.

    `base_commit` is where the step started: a file that is not in it was made by this step and may be changed by it.
    `git` is the command that reads the workspace's repository; give it an explicit `--git-dir`, for a model's command
    may have rewritten the workspace's `.git` file. `sandbox` wraps commands; without one and unless `sandbox_mode` is
    `off`, only gate commands and what the permissions allow runs. What `guard` knows as secret is masked in every
    result and gets into no file. `submodules`: paths in which file tools write nothing. `for_commands` gives the
    environment of commands, where it is another one; it may look at the disk.
    """

    def __init__(
        self,
        workspace: Path,
        *,
        ownership: Ownership,
        permissions: Permissions,
        environment: Mapping[str, str],
        available: Sequence[str] = WORKSPACE_TOOLS,
        gate_commands: Sequence[str] = (),
        sandbox: Sandbox | None = None,
        sandbox_mode: SandboxMode = "auto",
        on_start: Callable[[ProcessGroup], None] | None = None,
        on_output: Callable[[], None] | None = None,
        base_commit: str = "HEAD",
        git: Sequence[str] = ("git",),
        guard: SecretGuard | None = None,
        outputs: Outputs | None = None,
        submodules: Callable[[], Awaitable[frozenset[str]]] | None = None,
        for_commands: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._root = workspace
        self._files = Workspace(workspace)
        self._ownership = ownership
        self._permissions = permissions
        self._for_commands = for_commands or (lambda: environment)
        self._available = [name for name in available if name in WORKSPACE_TOOLS]
        self._sandbox = sandbox
        gates = frozenset(command.strip() for command in gate_commands)
        self._allowed = AllowedCommands(permissions, workspace, sandbox, sandbox_mode, gates)
        self._on_start = on_start
        self._on_output = on_output
        self._base_commit = base_commit
        self.guard = guard or SecretGuard(workspace, git=git, environment=environment, base_commit=base_commit)
        self._outputs = outputs
        self._submodules = submodules
        self._search = Search(workspace, environment=environment, git=git, hidden=self._is_hidden)

    async def call(self, name: str, raw_input: object) -> ToolResult:
        """Run one call. `raw_input` is what the model sent, unchecked.

        Raises FileNotFoundError when the workspace itself is gone: that is no mistake of the model.
        """
        parsed = parse(name, raw_input, self._available)
        os.stat(self._root)  # noqa: PTH116 (short: a change of threads costs more)
        await self.guard.learn()
        try:
            if isinstance(parsed, ToolFault):
                raise CallRefused(parsed.message)
            result = await self._run(parsed)
        except CallRefused as refused:
            result = ToolResult(content=str(refused), is_error=True, refused=isinstance(refused, NotOwned))
        self.guard.wrote(result.changed_paths)
        whole = None if result.whole is None else await asyncio.to_thread(self.guard.clean, result.whole)
        return result.model_copy(update={"content": self.guard.clean(result.content), "whole": whole})

    def without_secrets(self, path: str, data: bytes) -> bytes:
        """What of a file's content may be kept: its secrets are masked, as in what the model sees."""
        file = decode(data)
        if file is None:
            return data
        return self.guard.clean(masked_file(file.text) if is_secret_file(path) else file.text).encode()

    async def submodules(self) -> frozenset[str]:
        """Paths of the submodules that the step started with."""
        return frozenset() if self._submodules is None else await self._submodules()

    async def _run(self, call: object) -> ToolResult:
        if isinstance(call, Read | Write | Append | Edit) and self._outputs is not None and is_output(call.file_path):
            return await self._output(call, self._outputs)
        match call:
            case Read():
                path = await self._permitted("read", call.file_path)
                return await asyncio.to_thread(file_tools.read, self._files, path, call)
            case Write():
                path = await self._writable("write", call.file_path)
                return await self._changing(path, partial(file_tools.write, self._files, path, call))
            case Append():
                path = await self._writable("append", call.file_path)
                return await self._changing(path, partial(file_tools.append, self._files, path, call))
            case Edit():
                path = await self._writable("edit", call.file_path)
                return await self._changing(path, partial(file_tools.edit, self._files, path, call))
            case Glob():
                await self._permitted("glob", call.path or ".")
                return _found(await self._search.glob(call.pattern, call.path))
            case Grep():
                await self._permitted("grep", call.path or ".")
                return _found(await self._search.grep(call.pattern, call.path))
            case Bash():
                return await self._bash(call)
            case _:
                raise TypeError(f"no tool of the workspace takes {type(call).__name__}")

    async def _output(self, call: Read | Write | Append | Edit, outputs: Outputs) -> ToolResult:
        """Read or write what steps leave for each other; no secret gets there."""
        match call:
            case Read():
                return await asyncio.to_thread(outputs.read, call)
            case Write():
                clean = call.model_copy(update={"content": self.guard.clean(call.content)})
                return await asyncio.to_thread(outputs.write, clean)
            case _:
                raise CallRefused(f"{call.file_path}: an output is written whole. Use write with all of its content.")

    async def _permitted(self, tool: str, given: str) -> str:
        """The located path, if no permission rule forbids the name as given or the file behind it."""
        path = self._files.locate(given)
        for name in (path, given):
            decision = self._permissions.decide(tool, name)
            if isinstance(decision, Denied):
                raise CallRefused(decision.message)
        return path

    async def _writable(self, tool: str, given: str) -> str:
        path = await self._permitted(tool, given)
        if (submodule := submodule_of(path, await self.submodules() if "/" in path else ())) is not None:
            raise CallRefused(submodule_writes.refusal(path, submodule))
        verdict = self._ownership.may_write(path, exists=self._files.exists(path))
        if isinstance(verdict, Refused):
            as_new = self._ownership.may_write(path, exists=False)
            if isinstance(as_new, Refused) or await self._search.is_committed(self._base_commit, path):
                raise NotOwned(verdict.message)
        return path

    async def _changing(self, path: str, change: Callable[[file_tools.NewText], ToolResult]) -> ToolResult:
        """Change a file, unless a secret would get into it that it does not hold yet."""
        allowed: frozenset[str] = frozenset()

        def look(before: str, text: str) -> None:
            new = self.guard.found_in(text) - self.guard.found_in(before) - allowed if text != before else frozenset()
            if new:
                raise _SecretsFound(new)

        try:
            return await asyncio.to_thread(change, look)
        except _SecretsFound as found:
            if barred := await self.guard.barred(path, found.secrets):
                raise CallRefused(refusal(path, barred)) from None
            allowed = found.secrets
        return await asyncio.to_thread(change, look)

    async def _bash(self, call: Bash) -> ToolResult:
        self._allowed.require(call.command)
        limit = timedelta(milliseconds=call.timeout_ms or TIME_LIMIT_DEFAULT_MS)
        result = await commands.run(
            call.command,
            cwd=self._root,
            environment=await asyncio.to_thread(self._for_commands),
            time_limit=limit,
            output_limit_bytes=OUTPUT_LIMIT_BYTES,
            on_start=self._on_start,
            on_output=self._on_output,
            sandbox=self._sandbox,
        )
        output = _TERMINAL_CODES.sub("", result.output).rstrip("\n") or "(no output)"
        # Before the cut, which could leave half a secret; what the command itself made is known by then.
        self.guard.changed()
        await self.guard.learn()
        output = await self.guard.clean_printed(output)
        cut = cut_middle(output, hint="narrow it with grep, head or tail, or write it to a file and read that")
        return ToolResult(
            content=f"{cut.text}\n{_ending(result, limit)}",
            is_error=result.timed_out or result.exit_code != 0,
            left_out_bytes=cut.left_out_bytes + result.left_out_bytes,
            whole=output if cut.left_out_bytes else None,
        )

    def _is_hidden(self, path: str) -> bool:
        return isinstance(self._permissions.decide("glob", path), Denied)


class _SecretsFound(Exception):  # noqa: N818 - asks whether they may be there
    """Secrets stand in what would be written."""

    def __init__(self, secrets: frozenset[str]) -> None:
        super().__init__("secrets found")
        self.secrets = secrets


def _found(found: Found) -> ToolResult:
    return ToolResult(
        content=found.shown,
        left_out_bytes=found.left_out_bytes,
        whole=found.whole if found.left_out_bytes else None,
    )


def _ending(result: commands.CommandResult, limit: timedelta) -> str:
    if result.too_many_processes:
        return "[ended, because it had too many processes at once. Start fewer side by side.]"
    if not result.timed_out:
        return f"[exit code {result.exit_code}]"
    return (
        f"[ended after the time limit of {limit.total_seconds():g} s, with everything it started. There is no input "
        f"and no terminal: do not wait for either. Do less at once, or give timeout_ms up to {TIME_LIMIT_MAX_MS}.]"
    )
