"""Temporary files of this process: in a folder of its own in the state directory, which goes with it, even when it is
killed: the next worker removes what dead ones left."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from activities.folders import remove_tree
from activities.locking import held


@contextmanager
def scratch(state: Path) -> Iterator[Path]:
    """From here on `tempfile` makes its files in a folder that only this process uses."""
    root = state / "scratch"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as own:
        with held(root):
            for left in root.iterdir():
                _remove_if_left(left)
            folder = Path(tempfile.mkdtemp(dir=root))
            own.enter_context(held(folder))
        before, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            yield folder
        finally:
            tempfile.tempdir = before
            remove_tree(folder)


def _remove_if_left(folder: Path) -> None:
    try:
        with held(folder, wait=False):
            remove_tree(folder)
    except BlockingIOError:
        return  # its process lives
    except OSError:
        remove_tree(folder)  # not a folder of ours
