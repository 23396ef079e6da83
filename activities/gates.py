"""Gates in a workspace.

A gate passes only when its command ran and said so: what cannot start, runs out of time, finds nothing to test, or
would test the user's checkout is inconclusive, with the reason.
"""

import asyncio
import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from activities.chosen_tests import choose
from activities.commands import CommandResult, ProcessGroup, Sandbox, run
from activities.gate_discovery import discover
from activities.junit import read_cases
from activities.programs import NOT_EXECUTABLE, NOT_FOUND
from activities.python_origin import own_modules, project_environment, workspace_first
from activities.sandbox import programs_named
from baton.diagnostics import diagnostics
from baton.durations import format_duration
from baton.failures import Observed, Outcome, details_of, failure_fields
from baton.findings import SUMMARY_CHARACTERS, GateKind, GateOutcome, GateResult, GateSpec
from baton.gate_output import found_no_tests, observe, without_colour
from baton.missing_modules import REMEDY
from baton.printed_secrets import printed

__all__ = ["Gates", "Runner", "discover", "masking"]

OUTPUT_LIMIT_BYTES = 4_000_000
TAIL_CHARACTERS = 8_000
_KILLED = 128 + 9
_TESTING_KINDS = frozenset((GateKind.TEST, GateKind.COVERAGE, GateKind.CUSTOM))
_IMPORTING_KINDS = frozenset((GateKind.TEST, GateKind.COVERAGE, GateKind.CUSTOM))
_NO_MODULE = re.compile(r"^\S*(?:python|pypy)\S*: No module named (?P<name>\S+)$", re.MULTILINE)
_OWN_REPORT = re.compile(r"--junit-?xml[= ](?P<path>[\w.-][\w./-]*)")
_NPX_MISSING = re.compile(r"npx canceled due to missing packages and no YES option: \[\"(?P<name>@?[^\"@]+)")
_PYTEST_ERROR = re.compile(r"^(?:[\w ./-]+: error|ERROR): (?!usage:)(?P<said>\S.{0,200})", re.MULTILINE)
_PYTEST_REASONS = {
    3: "pytest had an internal error",
    4: "pytest refused its command line or configuration",
    5: "no tests were collected",
}


class Runner(Protocol):
    """`commands.run`."""

    def __call__(
        self,
        command: str | Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        time_limit: timedelta,
        output_limit_bytes: int = ...,
        on_start: Callable[[ProcessGroup], None] | None = ...,
        sandbox: Sandbox | None = ...,
    ) -> Awaitable[CommandResult]: ...


class Examined(NamedTuple):
    """A gate's result, and everything it saw: more than a result keeps. `own`: modules that the workspace brings."""

    result: GateResult
    seen: Observed
    own: frozenset[str] = frozenset()


class Gates:
    """Runs gates one at a time; the caller compares the results with `baton.findings.compare`."""

    def __init__(self, secrets: frozenset[str] = frozenset()) -> None:
        self._run = masking(secrets)
        self._secrets = secrets

    async def run(
        self,
        spec: GateSpec,
        workspace: Path,
        environment: Mapping[str, str],
        source_top_level: Path | None = None,
        *,
        sandbox: Sandbox | None = None,
        on_start: Callable[[ProcessGroup], None] | None = None,
    ) -> GateResult:
        """Run one gate. `environment` is the caller's, as `child_environment` leaves it."""
        done = await self.examine(
            spec, workspace, environment, source_top_level, sandbox=sandbox, on_start=on_start, only=()
        )
        return done.result

    async def examine(
        self,
        spec: GateSpec,
        workspace: Path,
        environment: Mapping[str, str],
        source_top_level: Path | None,
        *,
        sandbox: Sandbox | None,
        on_start: Callable[[ProcessGroup], None] | None,
        only: Sequence[str],
    ) -> Examined:
        """Run one gate, or only its tests of these names where the runner allows; also tells all it saw."""
        seen = project_environment(environment, workspace, source_top_level)
        if sandbox is not None:
            sandbox = replace(sandbox, readable=(*sandbox.readable, *programs_named(spec.command)))
        if spec.kind in _IMPORTING_KINDS:
            seen, problem = await workspace_first(spec.command, workspace, seen, source_top_level, sandbox)
            if problem is not None:
                return Examined(_result(spec, GateOutcome.INCONCLUSIVE, reason=problem), Observed())
        with tempfile.TemporaryDirectory(prefix="baton-gate-") as scratch:
            report = Path(scratch) / "junit.xml"
            # Watching test runners test once and end when they see CI; pytest says which tests failed, however deep in
            # a `make test` it is started.
            # A module that cannot be imported says nothing of the others.
            own_options = f"--continue-on-collection-errors --junitxml={report}"
            options = f"{seen.get('PYTEST_ADDOPTS', '')} {own_options}".strip()
            seen |= {"CI": "true", "PYTEST_ADDOPTS": options}
            command = spec.command
            reports = (report, *_named_report(command, workspace))
            if only:
                command, seen = choose(only, command, seen, Path(scratch))
            inside = replace(sandbox, writable=(*sandbox.writable, Path(scratch))) if sandbox else None
            done = await self._run(
                command,
                cwd=workspace,
                environment=seen,
                time_limit=spec.timeout,
                output_limit_bytes=OUTPUT_LIMIT_BYTES,
                on_start=on_start,
                sandbox=inside,
            )
            # Whoever prints its environment tells of no failure.
            done = done.model_copy(update={"output": done.output.replace(own_options, "")})
            done, observed = await asyncio.to_thread(_observed, done, reports, workspace, self._secrets)
        return Examined(_judged(spec, done, observed), observed, own_modules(workspace))


def masking(secrets: frozenset[str]) -> Runner:
    """A runner whose output has no secrets, before anybody cuts it: half a secret could not be found any more."""

    async def masked(command: str | Sequence[str], **options: Any) -> CommandResult:
        done = await run(command, **options)
        return done.model_copy(update={"output": await asyncio.to_thread(printed, done.output, secrets)})

    return masked


def _observed(
    done: CommandResult, reports: Sequence[Path], workspace: Path, secrets: frozenset[str]
) -> tuple[CommandResult, Observed]:
    """The run with paths as they are in every workspace, and what it saw: its JUnit file, else its output."""
    done = _without_place(done, workspace)
    cases = next((cases for path in reports if (cases := read_cases(path, workspace, secrets)) is not None), None)
    if cases is None:
        return done, observe(done.output)
    # One command may run tests and checkers.
    return done, Observed(cases=cases, findings=diagnostics(without_colour(done.output)) or ())


def _named_report(command: str, workspace: Path) -> tuple[Path, ...]:
    """Where the command itself has pytest write its report: that counts more than what we ask for."""
    named = _OWN_REPORT.search(command)
    place = workspace / named["path"] if named else workspace
    if named is None or ".." in place.parts or not place.resolve().is_relative_to(workspace.resolve()):
        return ()
    if place.is_file():
        place.unlink()
    return (place,)


def _judged(spec: GateSpec, done: CommandResult, seen: Observed) -> GateResult:
    reason = _why_inconclusive(spec, done, seen)
    if reason is not None:
        return _result(spec, GateOutcome.INCONCLUSIVE, done, reason=reason)
    if done.exit_code == 0:
        return _result(spec, GateOutcome.PASSED, done, seen)
    return _result(spec, GateOutcome.FAILED, done, seen)


def _without_place(done: CommandResult, workspace: Path) -> CommandResult:
    """Paths relative to the workspace: the baseline ran in another one, and nobody needs paths of this host."""
    output = done.output
    for place in {str(workspace), str(workspace.resolve())}:
        output = output.replace(f"{place}/", "")
    return done.model_copy(update={"output": output})


def _why_inconclusive(spec: GateSpec, done: CommandResult, seen: Observed) -> str | None:
    if done.timed_out:
        return f"it was stopped at its time limit of {format_duration(spec.timeout)}"
    if done.exit_code in (NOT_FOUND, NOT_EXECUTABLE):
        return f"its command could not be started (exit code {done.exit_code}): {_last_line(done.output)}"
    if done.too_many_processes:
        return "it was ended, because it had too many processes at once"
    if done.exit_code == _KILLED:
        return "it was killed (signal 9), perhaps because memory ran out"
    if done.exit_code != 0 and (missing := _NO_MODULE.search(done.output)):
        return f"{missing['name']} is not installed for the Python it uses: {missing[0]}; {REMEDY}"
    if done.exit_code != 0 and (missing := _NPX_MISSING.search(done.output)):
        return f"{missing['name']} is not installed in node_modules; {REMEDY}"
    if ("pytest" in spec.command or seen.cases is not None) and done.exit_code in _PYTEST_REASONS:
        told = _PYTEST_ERROR.search(done.output)
        return _PYTEST_REASONS[done.exit_code] + (f": {told['said']}" if told else "")
    return _why_nothing_was_tested(spec, done, seen)


def _why_nothing_was_tested(spec: GateSpec, done: CommandResult, seen: Observed) -> str | None:
    if seen.cases is not None:
        ran = [case for case in seen.cases if case.outcome is not Outcome.SKIPPED]
        if ran or done.exit_code != 0:
            return None
        return "every test was skipped" if seen.cases else "no tests were found"
    return "no tests were found" if spec.kind in _TESTING_KINDS and found_no_tests(done.output) else None


def _result(
    spec: GateSpec,
    outcome: GateOutcome,
    done: CommandResult | None = None,
    seen: Observed | None = None,
    *,
    reason: str | None = None,
) -> GateResult:
    failures = seen.failures if seen is not None and outcome is GateOutcome.FAILED else ()
    kept, left_out, fingerprint = failure_fields(failure.name for failure in failures)
    cases = seen.cases if seen else None
    return GateResult(
        name=spec.name,
        kind=spec.kind,
        command=spec.command,
        outcome=outcome,
        exit_code=done.exit_code if done else None,
        duration_seconds=round(done.duration.total_seconds(), 3) if done else 0.0,
        summary=_summary(done.output) if done else "",
        output_tail=_tail(done.output) if done else "",
        reason=reason,
        tests=len(cases) if cases is not None else None,
        skipped=sum(case.outcome is Outcome.SKIPPED for case in cases) if cases is not None else None,
        failures=kept,
        failures_left_out=left_out,
        fingerprint=fingerprint,
        details=details_of(failures),
    )


def _summary(output: str) -> str:
    """The last lines that say something."""
    lines = [line.rstrip() for line in without_colour(output).splitlines() if re.search(r"\w", line)]
    return "\n".join(line[:300] for line in lines[-15:])[-SUMMARY_CHARACTERS:]


def _tail(output: str) -> str:
    return without_colour(output)[-TAIL_CHARACTERS:]


def _last_line(output: str) -> str:
    return (_summary(output).splitlines() or ["no output"])[-1]
