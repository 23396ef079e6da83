"""`state.json` in the folder of a task: the progress that its workflow told, folded; what a resume starts from.

The copy among the artifacts is for people. This one is the truth, and exists whatever `persistState` says.
"""

from pathlib import Path

from activities.store import Store, write_atomically
from baton.progress import Progress, after
from baton.redaction import without_secrets


class StateFile:
    """The file below a task's folder."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._path = folder / "state.json"
        self._store = store

    def current(self) -> Progress | None:
        """The progress that was told last; None before there is any, or when the file cannot be read."""
        try:
            return Progress.model_validate_json(self._path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def take(self, new: Progress, *, for_next_run: bool = False, secrets: frozenset[str] = frozenset()) -> Progress:
        """Fold in what is new, without secrets that a person told to the task; returns the whole.

        Raises `OtherRevisionError` when it does not fit what is here.
        """
        whole = after(self.current(), without_secrets(new, secrets))
        data = whole.model_dump_json().encode()
        if for_next_run:
            self._store.enter(_key(whole.revision), data)
        write_atomically(self._path, data, replace=True)
        return whole

    def kept(self, revision: str) -> Progress | None:
        """The progress that was kept for a next run under this name, however often it has changed since."""
        data = self._store.entry(_key(revision))
        return None if data is None else Progress.model_validate_json(data)


def _key(revision: str) -> str:
    return f"progress/{revision}"
