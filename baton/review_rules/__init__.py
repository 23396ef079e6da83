"""The ten review rules for other people's agent code: text in, findings out."""

from pathlib import PurePosixPath

from baton.review_rules.finding import Finding, UnreadableSource
from baton.review_rules.python import review_python
from baton.review_rules.script import review_script

__all__ = ["EXTENSIONS", "Finding", "UnreadableSource", "review"]

_SCRIPT = frozenset((".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs"))
EXTENSIONS = _SCRIPT | {".py"}


def review(path: str, text: str) -> tuple[Finding, ...]:
    """Findings in one file, by place. `path` says the language and is named in the findings.

    Raises `UnreadableSource` when the text is not the language that its name says.
    """
    python = PurePosixPath(path).suffix.lower() == ".py"
    found = review_python(path, text) if python else review_script(path, text)
    return tuple(sorted(found, key=lambda finding: (finding.line, finding.column, finding.rule)))
