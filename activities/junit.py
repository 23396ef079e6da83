"""JUnit files, as pytest and many other runners write them, read to test cases."""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from xml.etree.ElementTree import ParseError

from junitparser import Error, JUnitXml, JUnitXmlError, Skipped, TestCase, TestSuite
from junitparser import Failure as Failed

from baton.failures import TEXT_CHARACTERS, Case, Outcome, paths_in
from baton.printed_secrets import printed
from baton.redaction import redacted

REPORT_LIMIT_BYTES = 20_000_000


def read_cases(path: Path, workspace: Path, secrets: frozenset[str] = frozenset()) -> tuple[Case, ...] | None:
    """The tests in a JUnit file; None without a readable one. Files are named as they are in the workspace.

    `secrets` are masked before anything is shortened.
    """
    if path.is_symlink() or not path.is_file() or path.stat().st_size > REPORT_LIMIT_BYTES:
        return None
    try:
        text = redacted(path.read_bytes().decode("utf-8", "surrogateescape"), secrets)
        report = JUnitXml.fromstring(text.encode("utf-8", "surrogateescape"))
        return tuple(_case(case, workspace) for case in _cases(report))
    except (ParseError, JUnitXmlError, ValueError):
        return None


def _cases(suites: Iterable[TestSuite | TestCase]) -> Iterator[TestCase]:
    """All cases, however deep."""
    for entry in suites:
        if isinstance(entry, TestCase):
            yield entry
        else:
            yield from entry
            yield from _cases(entry.testsuites())  # type: ignore[no-untyped-call]


def _case(case: TestCase, workspace: Path) -> Case:
    outcome, told = Outcome.PASSED, ""
    for entry in case.result:
        if isinstance(entry, Failed | Error):
            outcome, told = Outcome.FAILED, f"{entry.text or ''}\n{entry.message or ''}".strip()
            break
        if isinstance(entry, Skipped):
            outcome = Outcome.SKIPPED
    for place in {f"{workspace}/", f"{workspace.resolve()}/"}:
        told = told.replace(place, "")
    told = printed(told)
    name = "::".join(filter(None, (case.classname, case.name)))
    return Case(name=name, outcome=outcome, files=_files(case, told, workspace), text=told[-TEXT_CHARACTERS:])


def _files(case: TestCase, told: str, workspace: Path) -> tuple[str, ...]:
    """The file of the test, then those that its traceback names; only files of the workspace."""
    own = _own_file(case, workspace)
    named = [path for path in paths_in(told) if _is_file(workspace, path)]
    return tuple(dict.fromkeys([*([own] if own else []), *named]))


def _own_file(case: TestCase, workspace: Path) -> str | None:
    """pytest names the module as a class (`tests.test_a.TestAdd`); others name the file."""
    given = case._elem.get("file")
    if given and _is_file(workspace, given):
        return str(given)
    parts = [part for part in (case.classname or case.name or "").split(".") if part]
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length]) + ".py"
        if _is_file(workspace, path):
            return path
    return None


def _is_file(workspace: Path, path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not PurePosixPath(path).is_absolute() and ".." not in parts and (workspace / path).is_file()
