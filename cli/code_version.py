"""Which code a process runs: a fingerprint of our own files and of the packages that replay depends on.

A service records the fingerprint it was started with, so that later commands see when it runs on older code.
"""

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_OURS = ("baton", "activities", "workflows", "cli", "worker.py")
_PACKAGES = ("temporalio", "anthropic", "pydantic")
_SUFFIXES = frozenset({".py", ".md", ".json", ".html", ".css", ".js", ".yaml"})


def stamp(root: Path = _ROOT) -> str:
    """Changes whenever a file is touched; takes milliseconds. Says nothing about the content."""
    facts = []
    for path in _files(root):
        try:
            found = path.stat()
        except OSError:  # removed while we look: an installation is under way
            continue
        facts.append(f"{path.relative_to(root)} {found.st_mtime_ns} {found.st_size}")
    return _digest("\n".join(facts).encode())


def fingerprint(root: Path = _ROOT) -> str:
    """The same for the same code, wherever and whenever it was installed: 12 hexadecimal digits."""
    whole = hashlib.sha256()
    for path in _files(root):
        try:
            content = path.read_bytes()
        except OSError:
            continue
        whole.update(f"{path.relative_to(root)} {len(content)}\n".encode() + content)
    for package in _PACKAGES:
        whole.update(f"{package} {installed(package)}\n".encode())
    return whole.hexdigest()[:12]


def installed(package: str) -> str | None:
    """The version of an installed package, None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _files(root: Path) -> list[Path]:
    found: list[Path] = []
    for name in _OURS:
        place = root / name
        found += [place] if place.is_file() else [path for path in place.rglob("*") if path.suffix in _SUFFIXES]
    return sorted(found)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
