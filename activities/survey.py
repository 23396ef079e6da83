"""What is in a repository, as bounded text for the planner: the same text for the same commit, whatever its size.

Only git is asked (names, sizes, lines of a commit), so that 20 000 files take a second; what does not fit is
counted, never dropped in silence.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from activities.git import path_text, split
from activities.repository import PrivateRepository

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


@dataclass(frozen=True)
class _File:
    path: str
    size_bytes: int
    lines: int | None

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix.lstrip(".").lower()


async def survey(repository: PrivateRepository, commit: str) -> str:
    """Text of at most `LIMIT_BYTES` about the files of `commit`. Raises GitError for an unknown commit."""
    files = await _files(repository, commit)
    if not files:
        return "The repository has no files."
    sections = [
        _totals(files),
        _list("Languages, by lines", _languages(files), _LANGUAGES),
        _list("Top folders, by number of files", _folders(files), _FOLDERS),
        _list("Manifests and guidance", [_shown(file.path) for file in _manifests(files)], _MANIFESTS),
        _list("Test folders", _test_folders(files), _TESTS),
        _list("Largest files", _largest(files), _LARGEST),
        *[
            await _head(repository, commit, file.path, MANIFEST_CHARACTERS)
            for file in _manifests(files)[:_SHOWN_MANIFESTS]
        ],
        *[await _head(repository, commit, name, README_CHARACTERS) for name in _readme(files)],
        _list("All files" if len(files) <= _FILES else "Files", [_shown(file.path) for file in files], _FILES),
    ]
    return _fitted([section for section in sections if section])


async def _files(repository: PrivateRepository, commit: str) -> list[_File]:
    git = repository.git()
    sizes: dict[bytes, int] = {}
    for entry in split(await git.output("ls-tree", "-r", "-z", "--long", commit)):
        description, _, path = entry.partition(b"\t")
        mode, _, _, size = description.split()
        if mode != b"160000":
            sizes[path] = int(size)
    # Against the empty tree every line is an added one, so git counts them in one pass.
    empty = await git.text("hash-object", "-t", "tree", "--stdin", stdin=b"")
    flags = ("--numstat", "-z", "-r", "--no-renames")
    lines: dict[bytes, int] = {}
    for entry in split(await git.output("diff-tree", *flags, empty, commit, "--")):
        added, _, path = entry.split(b"\t", 2)
        if added != b"-":
            lines[path] = int(added)
    return [_File(path_text(path), size, lines.get(path)) for path, size in sorted(sizes.items())]


def _totals(files: Sequence[_File]) -> str:
    lines = sum(file.lines or 0 for file in files)
    binary = sum(file.lines is None and file.size_bytes > 0 for file in files)
    size = sum(file.size_bytes for file in files)
    return f"{len(files)} files, {lines} lines, {_size(size)}" + (f", {binary} of them binary" if binary else "")


def _languages(files: Iterable[_File]) -> list[str]:
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file in files:
        total = totals[LANGUAGES.get(file.suffix) or (f".{file.suffix}" if file.suffix else "(no extension)")]
        total[0] += 1
        total[1] += file.lines or 0
    ordered = sorted(totals.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    return [f"{_shown(name)}: {count} files, {lines} lines" for name, (count, lines) in ordered]


def _folders(files: Iterable[_File]) -> list[str]:
    """Folders of the first two levels."""
    counts: Counter[str] = Counter()
    for file in files:
        parts = file.path.split("/")[:-1]
        counts.update({"/".join(parts[:depth]) + "/" for depth in (1, 2) if len(parts) >= depth} or {"(top level)"})
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{_shown(name)}: {count}" for name, count in ordered]


def _manifests(files: Iterable[_File]) -> list[_File]:
    found = [file for file in files if PurePosixPath(file.path).name in MANIFESTS]
    return sorted(found, key=lambda file: (file.path.count("/"), file.path))


def _test_folders(files: Iterable[_File]) -> list[str]:
    counts: Counter[str] = Counter()
    for file in files:
        parts = file.path.split("/")[:-1]
        first = next((index for index, part in enumerate(parts) if part.lower() in _TEST_FOLDERS), None)
        if first is not None:
            counts["/".join(parts[: first + 1]) + "/"] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{_shown(name)}: {count} files" for name, count in ordered]


def _largest(files: Iterable[_File]) -> list[str]:
    ordered = sorted(files, key=lambda file: (-file.size_bytes, file.path))
    return [
        f"{_shown(file.path)}: {_size(file.size_bytes)}, {'binary' if file.lines is None else f'{file.lines} lines'}"
        for file in ordered
    ]


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


def _list(title: str, lines: Sequence[str], most: int) -> str:
    if not lines:
        return ""
    more = [f"  … and {len(lines) - most} more"] if len(lines) > most else []
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
    text = path if path.isprintable() else repr(path)
    return text if len(text) <= 160 else f"{text[:100]}…{text[-50:]}"


def _size(size_bytes: int) -> str:
    if size_bytes < 1_000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1_000:.0f} kB" if size_bytes < 1_000_000 else f"{size_bytes / 1_000_000:.1f} MB"
