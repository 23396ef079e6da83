"""Sizes of what a build left in a workspace."""

from pathlib import Path

from activities.measuring import sizes_of


def put(root: Path, **files: int) -> None:
    for name, size in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)


def test_files_folders_and_globs(tmp_path: Path) -> None:
    put(tmp_path, dist__a_dot_js=10, dist__sub__b_dot_js=5, dist__c_dot_css=3, other_dot_js=100)
    found = sizes_of(tmp_path, ["dist/a.js", "dist", "./dist/", "dist/**/*.js", "*.js", "none", "none/*.js"])
    assert [(size.bytes, size.files) for size in found] == [
        (10, 1),
        (18, 3),
        (18, 3),
        (15, 2),
        (100, 1),
        (None, 0),
        (None, 0),
    ]


def test_nothing_outside_is_measured(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    put(tmp_path, outside__secret=1000)
    put(workspace, dist__a=1)
    (workspace / "link").symlink_to(tmp_path / "outside")
    (workspace / "dist" / "file").symlink_to(tmp_path / "outside" / "secret")
    (workspace / ".git").mkdir()
    (workspace / ".git" / "big").write_bytes(b"x" * 500)
    found = sizes_of(workspace, ["link", "link/secret", "link/*", "dist", "**"])
    assert [size.bytes for size in found] == [None, None, None, 1, 1]
