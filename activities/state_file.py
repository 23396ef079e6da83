"""`state.json` in the folder of a task: the progress that its workflow told, folded; what a resume starts from.

The copy among the artifacts is for people. This one is the truth, and exists whatever `persistState` says.
"""

from pathlib import Path

from activities.store import write_atomically
from baton.progress import Progress, after


class StateFile:
    """The file below a task's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "state.json"

    def current(self) -> Progress | None:
        """The progress that was told last; None before there is any, or when the file cannot be read."""
        try:
            return Progress.model_validate_json(self._path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def take(self, new: Progress) -> Progress:
        """Fold in what is new; returns the whole. Raises `OtherRevisionError` when it does not fit what is here."""
        whole = after(self.current(), new)
        write_atomically(self._path, whole.model_dump_json().encode(), replace=True)
        return whole
