"""A file that was written since is another one, whatever is done to hide it."""

import os
from pathlib import Path

import pytest

from activities.file_stamp import stamp_of


@pytest.mark.parametrize("how", ["written", "replaced"])
def test_a_file_written_since_is_told_from_what_it_was(tmp_path: Path, how: str) -> None:
    file = tmp_path / "file"
    assert stamp_of(file) == ()
    file.write_text("one")
    os.utime(file, ns=(1, 1))
    before = stamp_of(file)
    assert stamp_of(file) == before
    if how == "written":
        file.write_text("two")
    else:
        (tmp_path / "new").write_text("two")
        (tmp_path / "new").replace(file)
    os.utime(file, ns=(1, 1))
    assert file.stat().st_size == 3
    assert file.stat().st_mtime_ns == 1
    assert stamp_of(file) != before
