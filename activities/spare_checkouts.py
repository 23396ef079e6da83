"""Checkouts of closed workspaces, kept for new ones: making thousands of files anew costs most of opening a workspace.

A new workspace gets the files only. Git's own folder for it is fresh, and the index is the one of the moment when the
checkout was complete. Every file that was touched after it is removed, so git writes it again, and cleans away whatever
else lies there. What cannot be brought back so is thrown away.
"""

import os
import secrets
import shutil
import stat
from pathlib import Path

from activities.folders import remove_tree

PRISTINE = "baton-index"
"""In git's folder for a workspace: its index when the checkout was complete; missing where files may not be kept."""
KEPT = 4
"""So many at most: each takes as much room as the repository's files."""
_FILES, _INDEX = "files", "index"


class SpareCheckouts:
    """The spares of one task, below `folder`. All methods block; callers hold the repository's lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def take_in(self, workspace: Path, administration: Path) -> None:
        """Keep the files of a workspace that is closed, where that can be."""
        pristine = administration / PRISTINE
        if not pristine.is_file() or len(self._all()) >= KEPT:
            return
        # Git made both, so their modes are alike.
        complete_ns, mode = pristine.stat().st_ctime_ns, stat.S_IMODE(administration.stat().st_mode)
        if not _cleared(workspace, complete_ns, mode):
            return
        spare = self.folder / secrets.token_hex(8)
        spare.mkdir(parents=True)
        workspace.rename(spare / _FILES)
        # Last, for a spare without it is none.
        pristine.replace(spare / _INDEX)

    def hand_out(self, workspace: Path, administration: Path) -> bool:
        """Give a workspace that git just added without files those of a spare; False where there is none."""
        for spare in self._all():
            if (spare / _INDEX).is_file() and (spare / _FILES).is_dir():
                link = (workspace / ".git").read_bytes()
                remove_tree(workspace)
                (spare / _FILES).rename(workspace)
                remove_tree(workspace / ".git")
                (workspace / ".git").write_bytes(link)
                (spare / _INDEX).replace(administration / "index")
                remove_tree(spare)
                return True
            remove_tree(spare)
        return False

    def _all(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.is_dir() else []


def _cleared(workspace: Path, complete_ns: int, mode: int) -> bool:
    """Remove every file that was touched since then; False where that does not do, or a folder has another mode.

    Git compares whole seconds, and sees neither modes that do not matter to it nor pipes and sockets.
    """
    folders = [workspace]
    try:
        for folder in folders:
            found = folder.lstat().st_mode
            if not stat.S_ISDIR(found) or stat.S_IMODE(found) != mode:
                return False
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    elif entry.stat(follow_symlinks=False).st_ctime_ns >= complete_ns:
                        Path(entry.path).unlink()
    except OSError:
        return False
    return True


def remember(workspace: Path, administration: Path) -> None:
    """Note what a complete checkout looks like. Not where there are submodules: git does not look into them."""
    if not (workspace / ".gitmodules").exists():
        shutil.copyfile(administration / "index", administration / PRISTINE)
