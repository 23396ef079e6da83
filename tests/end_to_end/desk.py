"""What tests of commands share: a person's shell with a repository, the real service, the stand-in model behind it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli import stand_in
from cli.service import stop

ROOT = Path(__file__).resolve().parents[2]
TASK = "Modernise the string formatting"
GATE = f"syntax={sys.executable} -m compileall -q ."
LIMIT_SECONDS = 120
LEGACY = """def line(name, count):
    return "SUBJECT %s has %s" % (name, count)
"""


@dataclass(frozen=True)
class Desk:
    """A person's shell: an environment, a repository, the program."""

    environment: dict[str, str]
    repository: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The program in the background, output piped."""
        return subprocess.Popen(
            [sys.executable, str(ROOT / "starter.py"), *arguments],
            cwd=self.repository,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The program to its end."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=LIMIT_SECONDS)
        finally:
            process.kill()  # one that hangs must not outlive its test; one that has ended is not touched
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.repository, env=self.environment, capture_output=True, check=True
        )
        return done.stdout.decode().strip()


@contextmanager
def running_desk(folder: Path, tokens_per_second: float = 0) -> Iterator[Desk]:
    """A desk with three old-fashioned files, a service of its own and the stand-in model (0: at once) behind it."""
    state, home, repository = folder / "state", folder / "home", folder / "repository"
    for path in (home, repository):
        path.mkdir()
    url = stand_in.start(state, tokens_per_second)
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    environment = inherited | {
        "HOME": str(home),
        "BATON_STATE_DIR": str(state),
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "ANTHROPIC_API_KEY": "stand-in",
        "ANTHROPIC_BASE_URL": url,
    }
    desk = Desk(environment, repository)
    desk.git("init", "-q", "-b", "main")
    for name in ("bolt", "washer", "rivet"):
        (repository / f"{name}.py").write_text(LEGACY.replace("SUBJECT", name))
    desk.git("add", ".")
    desk.git("commit", "-q", "-m", "first")
    try:
        yield desk
    finally:
        stop(state)
        stand_in.stop(state)


def task_of(text: str) -> str:
    """The id in `Task ID started.`"""
    return text.partition("Task ")[2].partition(" started.")[0]
