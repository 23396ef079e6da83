"""Which command lines of models and plans may run here: the permission rules, and the sandbox or what stands for it."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from activities.sandbox import Sandbox
from activities.tool_result import CallRefused
from baton.permissions import Denied, Permissions
from baton.settings import SandboxMode

SHOWN = 12


@dataclass(frozen=True)
class AllowedCommands:
    """The rule for one workspace. `gate_commands` are allowed word for word, also where there is no sandbox."""

    permissions: Permissions
    root: Path
    sandbox: Sandbox | None = None
    sandbox_mode: SandboxMode = "auto"
    gate_commands: Collection[str] = ()

    def require(self, command: str) -> None:
        """Raise `CallRefused`, which says what to do instead, unless the command may run."""
        if "\0" in command:
            raise CallRefused("A command cannot hold a NUL character: write it as printf '\\0'.")
        # Rules for files name them as the repository does, a command may name them by their place on the host.
        for spelling in (command, command.replace(f"{self.root}/", "")):
            decision = self.permissions.decide("bash", spelling)
            if isinstance(decision, Denied):
                raise CallRefused(decision.message)
        if self.sandbox is not None or self.sandbox_mode == "off":
            return
        if not self.permissions.allows_command(command, self.gate_commands):
            allowed = [
                *sorted(self.gate_commands),
                *(r for r in self.permissions.allow if r.lower().startswith("bash")),
            ]
            raise CallRefused(
                "This command was not run: there is no sandbox on this host, so only gate commands and what the "
                f"permissions allow can run, here: {'; '.join(allowed[:SHOWN]) or 'none'}. Use exactly one of these, "
                "and read, grep, glob and edit for everything about files. A person can allow more with "
                "permissions.allow in ~/.claude/settings.json, such as Bash(npm test *), or with --sandbox off."
            )
