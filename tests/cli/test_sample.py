"""The demo's repository: legacy, passing, deterministic, and worth converting."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.sample import build_sample_repository
from emulator.modernize import modernize


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sample_repository(tmp_path_factory.mktemp("sample"))


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def modules(root: Path) -> list[Path]:
    return [path for path in sorted(root.glob("*/*.py")) if path.parent.name != "tests" and path.name != "__init__.py"]


def suite(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=root, capture_output=True, text=True
    )


def test_it_is_one_clean_commit_and_always_the_same(sample: Path, tmp_path: Path) -> None:
    assert sample.name == "legacy-toolkit"
    assert git(sample, "status", "--porcelain") == ""
    assert git(sample, "rev-list", "--count", "HEAD").strip() == "1"
    again = build_sample_repository(tmp_path)
    assert git(again, "rev-parse", "HEAD") == git(sample, "rev-parse", "HEAD")
    with pytest.raises(FileExistsError):
        build_sample_repository(tmp_path)


def test_the_callers_git_settings_do_not_matter(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "gitconfig"
    config.write_text(
        "[commit]\n\tgpgsign = true\n[gpg]\n\tprogram = false\n[core]\n\tautocrlf = true\n\texcludesFile = x\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    made = build_sample_repository(tmp_path / "here")
    monkeypatch.delenv("GIT_DIR")
    assert git(made, "rev-parse", "HEAD") == git(sample, "rev-parse", "HEAD")


def test_modules_are_many_varied_and_of_readable_length(sample: Path) -> None:
    sources = [path.read_text() for path in modules(sample)]
    assert len(sources) >= 40
    assert len({source.split('"""', 2)[2] for source in sources}) == len(sources)
    assert all(40 <= source.count("\n") <= 120 for source in sources)
    assert b"\r\n" in (sample / "shipping" / "barge.py").read_bytes()


def test_the_suite_passes_before_and_after_and_a_wrong_conversion_fails_it(tmp_path: Path) -> None:
    root = build_sample_repository(tmp_path)
    before = suite(root)
    assert before.returncode == 0, before.stdout
    changed = 0
    for path in modules(root):
        data = path.read_bytes().decode()
        modern = modernize(data.replace("\r\n", "\n"))
        changed += modern != data.replace("\r\n", "\n")
        path.write_bytes((modern.replace("\n", "\r\n") if "\r\n" in data else modern).encode())
    assert changed >= 36
    after = suite(root)
    assert after.returncode == 0, after.stdout
    victim = root / "billing" / "refund.py"
    assert "{self.kilograms:.1f}" in victim.read_text()
    victim.write_text(victim.read_text().replace("{self.kilograms:.1f}", "{self.kilograms}"))
    assert suite(root).returncode == 1
