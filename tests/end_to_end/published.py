"""Packages as published, each as its developer has it: a repository, and a virtual environment with the package in it.

`make end-to-end` fetches the packages and what their suites need; the tests themselves reach loopback only.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from junitparser import JUnitXml

from activities.junit import read_cases
from baton.failures import Outcome
from tests.end_to_end.bench import git

ROOT = Path(__file__).parent.parent.parent
SDISTS = ROOT / ".venv" / "sdists"
NEEDED = ROOT / "build" / "published"
MISSING = "{} is missing: `make end-to-end` fetches it"


def unpacked(name: str, folder: Path) -> Path:
    """The package as a fresh repository with one commit."""
    archives = sorted(SDISTS.glob(f"{name}-*.tar.gz"))
    assert archives, MISSING.format(SDISTS / name)
    with tarfile.open(archives[-1]) as sdist:
        sdist.extractall(folder, filter="data")
    repository = next(folder.glob(f"{name}-*"))
    git(repository, "init", "-q", "-b", "main")
    git(repository, "config", "user.name", "Ada")
    git(repository, "config", "user.email", "ada@example.org")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "as published")
    return repository


def developed(repository: Path, source: str = ".") -> None:
    """Give the checkout a `.venv` with what its suite needs, where the package itself is installed for editing."""
    needed = next(NEEDED.glob("lib/python*/site-packages"), None)
    assert needed is not None, MISSING.format(NEEDED)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(repository / ".venv")], check=True)
    installed = next((repository / ".venv").glob("lib/python*/site-packages"))
    shutil.copytree(needed, installed, dirs_exist_ok=True, ignore=shutil.ignore_patterns("pip*", "__pycache__"))
    (installed / "editable.pth").write_text(f"{repository / source}\n", encoding="utf-8")
    metadata = installed / f"{repository.name}.dist-info"
    metadata.mkdir()
    shutil.copy(repository / "PKG-INFO", metadata / "METADATA")
    with (repository / ".git" / "info" / "exclude").open("a", encoding="utf-8") as excluded:
        excluded.write(".venv\n")


@dataclass(frozen=True)
class Suite:
    """What the package's own test run says: how many tests, how many of them skipped, which fail."""

    tests: int
    skipped: int
    failed: tuple[str, ...]


def suite(repository: Path, report: Path) -> Suite:
    """Run the package's suite in its checkout, as its developer does, without Baton."""
    command = [".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(report.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, cwd=repository, capture_output=True, env=environment)
    cases = read_cases(report, repository)
    assert cases, f"the suite of {repository.name} did not run"
    totals = JUnitXml.fromfile(str(report))
    assert (totals.tests, totals.skipped) == (len(cases), sum(case.outcome is Outcome.SKIPPED for case in cases))
    failed = tuple(sorted(case.name for case in cases if case.outcome is Outcome.FAILED))
    return Suite(tests=totals.tests, skipped=totals.skipped, failed=failed)


def fingerprint(repository: Path, without: tuple[str, ...]) -> dict[str, str]:
    """Every file of the repository, `.git` included, by content and time; new objects do not count."""
    found = {}
    for path in sorted(repository.rglob("*")):
        name = str(path.relative_to(repository))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file() and not name.startswith((".git/objects/", *without)):
            found[name] = f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
    return found


def all_but_the_result(repository: Path, task_id: str) -> dict[str, str]:
    """The fingerprint of everything that a run must leave as it was."""
    ref = f"refs/heads/baton/{task_id}"
    return fingerprint(repository, (".claude/", f".git/{ref}", f".git/logs/{ref}"))
