"""Secret values that commands in a workspace may print: those of its `.env`-like files."""

from pathlib import Path

from baton.redaction import is_secret_file, secret_values


def secrets_in(workspace: Path) -> frozenset[str]:
    """The secret values of the `.env`-like files at the top of the workspace."""
    files = [path for path in workspace.iterdir() if path.is_file() and is_secret_file(path.name)]
    values = (secret_values(path.read_text(encoding="utf-8", errors="replace")) for path in files)
    return frozenset[str]().union(*values)
