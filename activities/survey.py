"""What is in a repository, as bounded text for the planner: the same text for the same commit, whatever its size.

Only git is asked, and for names and sizes alone: counting the lines of all files would mean to read them all. What
does not fit is counted, never dropped in silence.
"""

import heapq
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from activities.git import path_text, split
from activities.repository import PrivateRepository
from baton.wording import counted

LIMIT_BYTES = 12_000
README_CHARACTERS = 1_500
MANIFEST_CHARACTERS = 700
_FOLDERS, _LANGUAGES, _LARGEST, _MANIFESTS, _SHOWN_MANIFESTS, _TESTS, _FILES = 30, 20, 12, 30, 3, 15, 120
# fmt: off
MANIFESTS = frozenset((
    "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "pytest.ini", "tox.ini", "Pipfile", "package.json",
    "tsconfig.json", "pnpm-workspace.yaml", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts",
    "Gemfile", "composer.json", "mix.exs", "Makefile", "CMakeLists.txt", "meson.build", "Dockerfile", "compose.yaml",
    "docker-compose.yml", "CLAUDE.md", "AGENTS.md", "Package.swift", "build.sbt", "deno.json",
))
LANGUAGES = {
    "py": "Python", "pyi": "Python stubs", "js": "JavaScript", "mjs": "JavaScript", "cjs": "JavaScript", "jsx": "JSX",
    "ts": "TypeScript", "tsx": "TSX", "go": "Go", "rs": "Rust", "java": "Java", "kt": "Kotlin", "scala": "Scala",
    "c": "C", "h": "C headers", "cc": "C++", "cpp": "C++", "hpp": "C++ headers", "cs": "C#", "rb": "Ruby", "php": "PHP",
    "swift": "Swift", "sh": "Shell", "sql": "SQL", "html": "HTML", "css": "CSS", "scss": "SCSS", "vue": "Vue",
    "md": "Markdown", "rst": "reStructuredText", "json": "JSON", "yaml": "YAML", "yml": "YAML", "toml": "TOML",
}
# fmt: on
_TEST_FOLDERS = frozenset(("test", "tests", "__tests__", "spec", "specs", "testing"))
_READMES = ("readme.md", "readme.rst", "readme.txt", "readme")


class _File(NamedTuple):
    """A file of the commit. Bytes of its path that are no UTF-8 stand as git's arguments have them."""

    path: str
    size_bytes: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        stem, _, suffix = self.name.rpartition(".")
        return suffix.lower() if stem.strip(".") else ""


async def survey(repository: PrivateRepository, commit: str) -> str:
    """Text of at most `LIMIT_BYTES` about the files of `commit`. Raises GitError for an unknown commit."""
    files = await _files(repository, commit)
    if not files:
        return "The repository has no files."
    sections = [
        _totals(files),
        _list("Languages, by size", _languages(files), _LANGUAGES),
        _list("Top folders, by number of files", _folders(files), _FOLDERS),
        _list("Manifests and guidance", [_shown(file.path) for file in _manifests(files)], _MANIFESTS),
        _list("Test folders", _test_folders(files), _TESTS),
        _list("Largest files", await _largest(repository, commit, files), _LARGEST, len(files)),
        *[
            await _head(repository, commit, file.path, MANIFEST_CHARACTERS)
            for file in _manifests(files)[:_SHOWN_MANIFESTS]
        ],
        *[await _head(repository, commit, name, README_CHARACTERS) for name in _readme(files)],
        _list("All files" if len(files) <= _FILES else "Files", _first(files), _FILES, len(files)),
    ]
    return _fitted([section for section in sections if section])


async def _files(repository: PrivateRepository, commit: str) -> list[_File]:
    """Sorted as git does; submodules are not files. ValueError where content is missing."""
    listed = await repository.git().output("ls-tree", "-r", "-z", "--long", commit)
    entries = (entry.partition("\t") for entry in listed.decode("utf-8", "surrogateescape").split("\0") if entry)
    sizes = [(facts.rpartition(" ")[2], path) for facts, _, path in entries]
    if missing := [path for size, path in sizes if size == "BAD"]:
        told = f"{counted(len(missing), 'file')} of the commit {commit[:12]} cannot be read, as {_shown(missing[0])}"
        raise ValueError(f"{told}: git fsck in the repository says what is missing")
    return [_File(path, int(size)) for size, path in sizes if size != "-"]


def _totals(files: Sequence[_File]) -> str:
    return f"{len(files)} files, {_size(sum(file.size_bytes for file in files))}"


def _languages(files: Iterable[_File]) -> list[str]:
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file in files:
        total = totals[file.suffix]
        total[0] += 1
        total[1] += file.size_bytes
    named: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for suffix, (count, size) in totals.items():
        total = named[LANGUAGES.get(suffix) or (f".{suffix}" if suffix else "(no extension)")]
        total[0] += count
        total[1] += size
    ordered = sorted(named.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    return [f"{_shown(name)}: {count} files, {_size(size)}" for name, (count, size) in ordered]


def _folders(files: Iterable[_File]) -> list[str]:
    """Folders of the first two levels."""
    counts: Counter[str] = Counter()
    for parts, count in _by_folder(files).items():
        counts.update(
            dict.fromkeys({"/".join(parts[:depth]) + "/" for depth in (1, 2) if len(parts) >= depth}, count)
            or {"(top level)": count}
        )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{_shown(name)}: {count}" for name, count in ordered]


def _by_folder(files: Iterable[_File]) -> dict[tuple[str, ...], int]:
    """How many files lie in each folder itself; the top level is empty."""
    counts = Counter(file.path.rpartition("/")[0] for file in files)
    return {tuple(folder.split("/")) if folder else (): count for folder, count in counts.items()}


def _manifests(files: Iterable[_File]) -> list[_File]:
    found = [file for file in files if file.name in MANIFESTS]
    return sorted(found, key=lambda file: (file.path.count("/"), file.path))


def _test_folders(files: Iterable[_File]) -> list[str]:
    counts: Counter[str] = Counter()
    for parts, count in _by_folder(files).items():
        first = next((index for index, part in enumerate(parts) if part.lower() in _TEST_FOLDERS), None)
        if first is not None:
            counts["/".join(parts[: first + 1]) + "/"] += count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{_shown(name)}: {count} files" for name, count in ordered]


async def _largest(repository: PrivateRepository, commit: str, files: Sequence[_File]) -> list[str]:
    """Of these, and of them alone, the lines are counted."""
    largest = heapq.nsmallest(_LARGEST, files, key=lambda file: (-file.size_bytes, file.path))
    git = repository.git()
    # Against the empty tree every line is an added one.
    empty = await git.text("hash-object", "-t", "tree", "--stdin", stdin=b"")
    paths = [file.path for file in largest]
    counted = await git.output("diff-tree", "--numstat", "-z", "-r", "--no-renames", empty, commit, "--", *paths)
    lines = {os.fsdecode(path): added for added, _, path in (entry.split(b"\t", 2) for entry in split(counted))}
    shown = {file: lines.get(file.path, b"0").decode() for file in largest}
    return [
        f"{_shown(file.path)}: {_size(file.size_bytes)}, {'binary' if count == '-' else f'{count} lines'}"
        for file, count in shown.items()
    ]


def _first(files: Sequence[_File]) -> list[str]:
    return [_shown(file.path) for file in files[:_FILES]]


def _readme(files: Iterable[_File]) -> list[str]:
    names = {file.path.lower(): file.path for file in files if "/" not in file.path}
    return [names[name] for name in _READMES if name in names][:1]


async def _head(repository: PrivateRepository, commit: str, path: str, characters: int) -> str:
    try:
        raw = await repository.read_file(commit, path, limit_bytes=characters * 4)
    except FileNotFoundError:  # a link to a folder, or a name that is no UTF-8
        return ""
    text = raw.decode("utf-8", "replace").strip()
    shown = text[:characters]
    rest = "\n… (cut here)" if len(text) > characters or len(raw) == characters * 4 else ""
    return f"Beginning of {_shown(path)}:\n" + "\n".join(f"  {line}" for line in shown.splitlines()) + rest


def _list(title: str, lines: Sequence[str], most: int, total: int | None = None) -> str:
    """The first `most` of the lines; `total` is their number where not all are given."""
    if not lines:
        return ""
    left = (len(lines) if total is None else total) - most
    more = [f"  … and {left} more"] if left > 0 else []
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines[:most]), *more])


def _fitted(sections: Sequence[str]) -> str:
    """The sections that fit, whole lines only; what is cut off is told."""
    text = "\n\n".join(sections)
    if len(text.encode()) <= LIMIT_BYTES:
        return text
    lines = text.split("\n")
    room = LIMIT_BYTES - 60
    kept = 0
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept += 1
    return "\n".join([*lines[:kept], f"… and {len(lines) - kept} more lines of this survey"])


def _shown(path: str) -> str:
    """A path on one line, cut when it is absurdly long."""
    path = path_text(os.fsencode(path))
    text = path if path.isprintable() else repr(path)
    return text if len(text) <= 160 else f"{text[:100]}…{text[-50:]}"


def _size(size_bytes: int) -> str:
    if size_bytes < 1_000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1_000:.0f} kB" if size_bytes < 1_000_000 else f"{size_bytes / 1_000_000:.1f} MB"
