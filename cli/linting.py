"""The files that `orchestrate lint` reads: which ones, and their text whatever its encoding."""

import codecs
import io
import os
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from baton.review_rules import EXTENSIONS, Finding, UnreadableSource, review
from cli.checks import git
from cli.exits import Refused

LARGEST_BYTES = 1_000_000
_NEVER = frozenset(("node_modules", ".git", ".venv", "venv", "__pycache__"))
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Reviewed:
    """What a review came to. `warnings`: files that could not be read, each with the reason."""

    files: int
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]


def review_path(place: Path) -> Reviewed:
    """Review a file, or all files below a folder. Raises `Refused` where there is nothing to review."""
    if not place.exists():
        raise Refused(f"{place}: there is no such file or folder")
    if place.is_file() and place.suffix.lower() not in EXTENSIONS:
        raise Refused(f"{place}: only {', '.join(sorted(EXTENSIONS))} files can be reviewed")
    warnings: list[str] = []
    files = [place] if place.is_file() else sorted(_files(place, warnings))
    findings: list[Finding] = []
    for file in files:
        shown = os.fsencode(file).decode("utf-8", "backslashreplace")
        try:
            findings.extend(review(shown, _text(file)))
        except OSError as error:
            warnings.append(f"{shown}: not reviewed: {error.strerror or error}")
        except UnreadableSource as error:
            warnings.append(f"{shown}: not reviewed: {error}")
    return Reviewed(len(files), tuple(findings), tuple(warnings))


def _files(folder: Path, warnings: list[str]) -> Iterator[Path]:
    """Source files below a folder: what git would take where it is a repository, else all; never what was installed."""
    listed = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed.returncode == 0:
        names = {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}
        found = (folder / name for name in names)
        environments = {path.parent for path in folder.rglob("pyvenv.cfg")}
        yield from (path for path in found if _is_source(path, folder) and not environments & {*path.parents})
        return

    def told(error: OSError) -> None:
        warnings.append(f"{error.filename}: not reviewed: {error.strerror}")

    for at, folders, names_here in os.walk(folder, onerror=told):
        folders[:] = [name for name in folders if name not in _NEVER and not Path(at, name, "pyvenv.cfg").exists()]
        yield from (path for name in names_here if _is_source(path := Path(at, name), folder))


def _is_source(path: Path, folder: Path) -> bool:
    inside = path.relative_to(folder)
    return (
        path.suffix.lower() in EXTENSIONS
        and not _NEVER & set(inside.parts)
        and path.is_file()
        and not path.is_symlink()
    )


def _text(file: Path) -> str:
    """The text in the encoding that the file names, else UTF-8, else Latin-1, which takes every byte."""
    if file.stat().st_size > LARGEST_BYTES:
        raise UnreadableSource(f"it has more than {LARGEST_BYTES:,} bytes; is it generated?")
    content = file.read_bytes()
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), None)
    if encoding is None and file.suffix.lower() == ".py":
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        except SyntaxError:
            encoding = None
    for name in (encoding or "utf-8", "utf-8"):
        try:
            return _with_plain_line_ends(content.decode(name))
        except (UnicodeDecodeError, LookupError):
            continue
    return _with_plain_line_ends(content.decode("latin-1"))


def _with_plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
