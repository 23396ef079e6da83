"""The files that steps leave for later ones, as `@outputs/<step>/<name>` for the `read` and `write` tools.

They lie in the task's folder, whatever happens to a workspace, and among the artifacts for people. A file is written
whole, so that a turn which is repeated writes the same once more.
"""

from dataclasses import dataclass
from pathlib import Path

from activities import file_tools
from activities.confinement import Workspace
from activities.tool_result import CallRefused, ToolResult
from baton.step_outputs import PREFIX, SHOWN_CHARACTERS, output_of
from baton.tool_inputs import Read, Write

MOST_BYTES = 1_000_000
MOST_FILES = 100


def is_output(path: str) -> bool:
    """Whether a path of a tool call means an output."""
    return path == PREFIX.rstrip("/") or path.startswith(PREFIX)


@dataclass(frozen=True)
class Outputs:
    """The outputs of one task below `folder`, for an agent of `step` (None: it only reads). All of it blocks.

    `copies` is the folder among the artifacts, None where none are kept.
    """

    folder: Path
    step: int | None = None
    copies: Path | None = None

    def read(self, call: Read) -> ToolResult:
        """An output of any step. Raises `CallRefused`, which names what there is."""
        place = self._place(call.file_path)
        if place is None or not (self.folder / place).is_file():
            raise CallRefused(f"{call.file_path}: there is no such output. {self._listing()}")
        result = file_tools.read(Workspace(self.folder), place, call)
        return result.model_copy(update={"read_paths": ()})

    def write(self, call: Write) -> ToolResult:
        """Create or replace an output of the agent's own step. Raises `CallRefused`."""
        if self.step is None:
            raise CallRefused(f"{call.file_path}: this role leaves no outputs. Say it in your report.")
        place = self._place(call.file_path)
        if place is None or not place.startswith(f"{self.step}/"):
            raise CallRefused(f"{call.file_path}: write outputs of this step as {PREFIX}{self.step}/<name>.")
        data = call.content.encode("utf-8", "replace")
        there = self._names()
        if len(data) > MOST_BYTES or (place not in there and len(there) >= MOST_FILES):
            raise CallRefused(
                f"{call.file_path}: at most {MOST_FILES} outputs of {MOST_BYTES} bytes each are kept. Write less."
            )
        for root in (self.folder, *([self.copies] if self.copies is not None else [])):
            root.mkdir(parents=True, exist_ok=True)
            workspace = Workspace(root)
            workspace.write(workspace.locate(place), data)
        return ToolResult(content=f"wrote {PREFIX}{place}: {len(data)} bytes, for the steps after this one")

    def beginning(self, input_context: str) -> tuple[str, int] | None:
        """The beginning of an output, and how many characters are left out; None when nobody wrote it."""
        place = self._place(PREFIX + input_context)
        if place is None or not (self.folder / place).is_file():
            return None
        text = (self.folder / place).read_text(encoding="utf-8", errors="replace")
        return text[:SHOWN_CHARACTERS], max(0, len(text) - SHOWN_CHARACTERS)

    def has(self, step: int, name: str) -> bool:
        """Whether a step left an output of this name."""
        return (self.folder / str(step) / name).is_file()

    def _place(self, given: str) -> str | None:
        """`<step>/<name>` below the folder; a name alone means the agent's own step."""
        found = output_of(given)
        rest = given.removeprefix(PREFIX)
        if found is None and self.step is not None and rest and is_output(given):
            found = (self.step, rest)
        if found is None or not given.startswith(PREFIX):
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        return Workspace(self.folder).locate(f"{found[0]}/{found[1]}")

    def _names(self) -> list[str]:
        files = self.folder.rglob("*") if self.folder.is_dir() else ()
        return sorted(str(path.relative_to(self.folder)) for path in files if path.is_file())

    def _listing(self) -> str:
        names = self._names()
        return f"There are: {', '.join(PREFIX + name for name in names[:20])}." if names else "No step left any yet."
