"""Temporary files of a worker go with it, however it ends."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from activities.scratch import scratch

HOLDS = """
import sys, tempfile
from pathlib import Path
from activities.scratch import scratch
with scratch(Path(sys.argv[1])):
    with tempfile.TemporaryDirectory() as folder:
        print(folder, flush=True)
        sys.stdin.read()
"""


def test_temporary_files_lie_in_the_state_directory_and_go(tmp_path: Path) -> None:
    before = tempfile.gettempdir()
    with scratch(tmp_path) as folder:
        assert Path(tempfile.mkdtemp()).parent == folder
        assert folder.is_relative_to(tmp_path)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert tempfile.gettempdir() == before


def test_what_a_killed_process_left_goes_and_what_a_living_one_uses_stays(tmp_path: Path) -> None:
    dead, living = (
        subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    )
    try:
        assert dead.stdout is not None
        assert living.stdout is not None
        left, used = Path(dead.stdout.readline().strip()), Path(living.stdout.readline().strip())
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert left.is_dir()
        (tmp_path / "scratch" / "stray.txt").write_text("not a folder")
        with scratch(tmp_path) as own:
            assert not left.parent.exists()
            assert used.is_dir()
            assert sorted((tmp_path / "scratch").iterdir()) == sorted([used.parent, own])
    finally:
        for process in (dead, living):
            process.kill()
            process.communicate()
