"""Files of one workspace, and nothing else: every path of a file tool goes through here.

A path is located first (links followed, the result must lie inside), then opened component by component without
following any link, so a link that appears in between is refused instead of followed. No component may be `.git` in any
spelling. Only regular files are opened; writes replace a file at once or not at all.
"""

import difflib
import errno
import os
import posixpath
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from activities.tool_result import CallRefused

READ_LIMIT_BYTES = 64_000_000
"""Larger files are not taken into memory."""

_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EISDIR: "it is a folder; name a file in it",
    errno.EACCES: "permission denied; leave this file alone",
    errno.EPERM: "permission denied; leave this file alone",
    errno.ELOOP: "the path leads over a symbolic link that changed or goes in circles; name the file itself",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.ENXIO: "it is not a regular file; only regular files can be read and written",
    errno.ENOSPC: "the disk is full; finish with what there is and report it",
    errno.ENOTEMPTY: "it is a folder; name a file in it",
}


class Workspace:
    """The files below one folder, which must exist. All methods block: call them in a thread."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.realpath(root))

    def locate(self, given: str) -> str:
        """The path of a file relative to the workspace, with links followed; `.` for the workspace itself.

        The file need not exist. Raises `CallRefused`.
        """
        if not given.strip() or "\0" in given:
            raise CallRefused("The path is empty. Give a path relative to the workspace root, such as src/main.py.")
        joined = os.path.normpath(self._root / given)
        try:
            real = os.path.realpath(self._as_spelled(joined))
        except OSError as error:
            raise CallRefused(f"{given}: the path changed while it was looked at. Try again.") from error
        if real != str(self._root) and not real.startswith(f"{self._root}{os.sep}"):
            raise CallRefused(
                f"{given}: it leads outside the workspace. Give a path relative to the workspace root, "
                "such as src/main.py."
            )
        path = os.path.relpath(real, self._root)
        if any(is_git_name(part) for part in (*given.split("/"), *path.split("/"))):
            raise CallRefused(f"{given}: git's own files cannot be used. Work with the files of the project only.")
        return path

    def exists(self, path: str) -> bool:
        """Whether there is anything at a located path."""
        return os.path.lexists(self._root / path)

    def is_folder(self, path: str) -> bool:
        """Whether a located path is a folder."""
        return (self._root / path).is_dir()

    def is_plain_file(self, path: str) -> bool:
        """Whether a path is a regular file that is reached without any link."""
        with suppress(OSError, CallRefused), self._opened(path) as descriptor:
            return stat.S_ISREG(os.fstat(descriptor).st_mode)
        return False

    def read(self, path: str) -> bytes:
        """The bytes of a located file. Raises `CallRefused` when it is missing, not regular, or over 64 MB."""
        with self._named_errors(path), self._opened(path) as descriptor:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, "")
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.ENXIO, "")
            if found.st_size > READ_LIMIT_BYTES:
                raise CallRefused(f"{path}: it has {found.st_size} bytes, too many for this tool. Search it with grep.")
            with os.fdopen(os.dup(descriptor), "rb") as file:
                return file.read()

    def write(self, path: str, data: bytes) -> None:
        """Put `data` in place of the file at once, its mode kept; folders are made. Raises `CallRefused`."""
        with self._named_errors(path), self._folder(posixpath.dirname(path), create=True) as folder:
            name = posixpath.basename(path)
            mode = _regular_mode(name, folder)
            temporary = f".baton-{secrets.token_hex(8)}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o666, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    if mode is not None:
                        os.fchmod(descriptor, mode)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    def _as_spelled(self, joined: str) -> str:
        """The path, where a missing component is replaced by one that differs from it in Unicode form only."""
        if os.path.lexists(joined) or joined.isascii():
            return joined
        spelled = Path("/")
        for part in Path(joined).parts[1:]:
            spelled /= part if os.path.lexists(spelled / part) else _twin(spelled, part)
        return str(spelled)

    @contextmanager
    def _folder(self, path: str, *, create: bool = False) -> Iterator[int]:
        """A descriptor of a folder of the workspace, reached without following a link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._root, flags)
        try:
            for part in Path(path).parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                following = os.open(part, flags, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = following
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """A descriptor of whatever is at the path; opening a FIFO or device does not block."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._folder(posixpath.dirname(path)) as folder:
            descriptor = os.open(posixpath.basename(path) or ".", flags, dir_fd=folder)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def _named_errors(self, path: str) -> Iterator[None]:
        """Turn errors of the system into words without a host path."""
        try:
            yield
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, (error.strerror or "it cannot be used").lower())
            hint = self._similar(path) if error.errno == errno.ENOENT else ""
            raise CallRefused(f"{path}: {reason}.{hint}") from error

    def _similar(self, path: str) -> str:
        """Files of the same folder whose names resemble the missing one's."""
        with suppress(OSError), self._folder(posixpath.dirname(path)) as folder:
            near = difflib.get_close_matches(posixpath.basename(path), os.listdir(folder), n=3)  # noqa: PTH208
            if near:
                found = ", ".join(posixpath.join(posixpath.dirname(path), name) for name in near)
                return f" Did you mean {found}?"
        return " Find the right path with glob or grep."


def is_git_name(component: str) -> bool:
    """Whether some file system opens `.git` under this name: case, invisible characters, short and stream names."""
    visible = "".join(character for character in component if unicodedata.category(character) != "Cf")
    name = unicodedata.normalize("NFKC", visible).casefold().split(":")[0].rstrip(" .")
    return name in {".git", "git~1"}


def _twin(folder: Path, name: str) -> str:
    """The entry of a folder that is `name` in another Unicode form, else `name`."""
    form = unicodedata.normalize("NFC", name)
    with suppress(OSError):
        return next((e.name for e in folder.iterdir() if unicodedata.normalize("NFC", e.name) == form), name)
    return name


def _regular_mode(name: str, folder: int) -> int | None:
    """The permission bits of the file that will be replaced, None for a new one."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "")
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ENXIO, "")
    return stat.S_IMODE(found.st_mode)
