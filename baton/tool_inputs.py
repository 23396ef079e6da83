"""The inputs of all tools that a model sees, one model per tool.

Names and fields of the file tools are those of the SDK's agent toolset. Descriptions are part of the prompt:
short, concrete, and true of our implementations.
"""

from typing import Annotated, Literal

from pydantic import Field

from baton.facts import InProgressItem, Outcome
from baton.knowledge import Decision, Issue, Need
from baton.models import Submitted
from baton.plan import PlanDraft

TIME_LIMIT_DEFAULT_MS = 120_000
TIME_LIMIT_MAX_MS = 600_000
COMMAND_MAX_CHARACTERS = 30_000
"""In any script this stays below what Linux takes as one argument (128 KiB)."""
PATTERN_MAX_CHARACTERS = 2_000

FilePath = Annotated[str, Field(description="Path relative to the workspace root", min_length=1)]
SearchFolder = Annotated[
    str | None, Field(description="Folder or file to search in, relative to the workspace root; all if absent")
]


class Read(Submitted):
    """Read a text file, exactly as it is, without line numbers. Long files are cut in the middle: page with
    view_range."""

    file_path: FilePath
    view_range: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="[first, last] line, counted from 1, both included; last -1 = to the end"
    )


class Write(Submitted):
    """Create a file or replace its whole content; missing folders are made. To change part of a file use edit;
    to write a long file use write for the first part and append for the rest."""

    file_path: FilePath
    content: str = Field(description="The whole content of the file")


class Append(Submitted):
    """Add text to the end of a file. Refused when the file does not have at_line lines, so nothing is added
    twice. A missing file is created when at_line is 0."""

    file_path: FilePath
    at_line: int = Field(ge=0, description="How many lines the file has now")
    content: str = Field(description="Text to add, with its final line end", min_length=1)


class Edit(Submitted):
    """Replace old_string, which must occur exactly once, by new_string. Line ends (LF or CRLF) need not match:
    those of the file are kept."""

    file_path: FilePath
    old_string: str = Field(description="Text to replace, exact but for line ends", min_length=1)
    new_string: str = Field(description="Text to put in its place; empty to delete")
    replace_all: bool | None = Field(default=None, description="Replace every occurrence")


class Glob(Submitted):
    """List the files whose path matches a pattern, sorted. * stays within a folder, ** crosses folders, {a,b}
    are alternatives. Files that git ignores are left out."""

    pattern: str = Field(
        description="For example **/*.py or src/*.{js,ts}", min_length=1, max_length=PATTERN_MAX_CHARACTERS
    )
    path: SearchFolder = None


class Grep(Submitted):
    """Search file contents line by line for a Perl-compatible regular expression; gives path:line:text. Binary
    files and files that git ignores are left out."""

    pattern: str = Field(
        description="Regular expression; start with (?i) to ignore case",
        min_length=1,
        max_length=PATTERN_MAX_CHARACTERS,
    )
    path: SearchFolder = None


class Bash(Submitted):
    """Run a command in a fresh shell at the workspace root: no state is kept between calls, there is no terminal
    and no input. Stdout and stderr come back together with the exit code."""

    command: str = Field(description="The command line", min_length=1, max_length=COMMAND_MAX_CHARACTERS)
    timeout_ms: int | None = Field(
        default=None,
        ge=1,
        le=TIME_LIMIT_MAX_MS,
        description=f"Time limit, default {TIME_LIMIT_DEFAULT_MS}, at most {TIME_LIMIT_MAX_MS}",
    )


class CompleteItem(Submitted):
    """Report one item as finished. Checked against the files: changed needs a change, unchanged needs that the
    item was read."""

    item: str = Field(description="The item as it stands in the assignment", min_length=1)
    outcome: Outcome = Field(
        default="changed", description="changed; unchanged = right as it was; skipped = cannot be done, say why"
    )
    note: str | None = Field(default=None, description="One sentence, needed when skipped")


class Record(Submitted):
    """Record what later agents must know: decisions, patterns, issues, and needs for the owners of files that are not
    yours. They see only what is recorded."""

    decisions: list[Decision] = Field(default=[], description="Choices that others should follow")
    patterns: list[str] = Field(default=[], description="Ways of doing things, one sentence each")
    issues: list[Issue] = Field(default=[], description="Problems met, with their resolution if there is one")
    needs: list[Need] = Field(default=[], description="Changes you need in files that another step owns")


class HandOff(Submitted):
    """End your part and hand the rest to a successor, who continues in the same workspace from what you say
    here."""

    in_progress_item: InProgressItem | None = Field(default=None, description="The item you are in the middle of")
    notes: str | None = Field(default=None, description="Anything else the successor must know")
    decisions_made: list[Decision] = Field(default=[], description="Decisions not yet recorded")
    issues_encountered: list[Issue] = Field(default=[], description="Issues not yet recorded")
    patterns_established: list[str] = Field(default=[], description="Patterns not yet recorded")


class AskPredecessor(Submitted):
    """Ask the agent before you one question that its manifest leaves open."""

    question: str = Field(min_length=1)


class Finding(Submitted):
    """Something that people should know, with the place where it shows."""

    finding: str = Field(description="What was found, in one or two sentences", min_length=1)
    files: list[str] = Field(default=[], description="Paths where it shows")
    severity: Literal["low", "medium", "high"] = "medium"
    suggested_action: str | None = None


class Criterion(Submitted):
    """Whether one success criterion of the step is met."""

    criterion: str = Field(min_length=1)
    met: bool
    evidence: str = Field(default="", description="What shows it: a command and its result, a file and line")


class FinishStep(Submitted):
    """End the step and report its result. Say plainly what is missing or was not checked."""

    status: Literal["ok", "partial", "blocked", "failed"]
    summary: str = Field(description="What was done, in a few sentences", min_length=1)
    findings: list[Finding] = Field(default=[])
    criteria: list[Criterion] = Field(default=[], description="One entry per success criterion of the step")
    blockers: list[str] = Field(default=[], description="What keeps the step from being ok")
    verification_gaps: list[str] = Field(default=[], description="What was not verified")


class SubmitPlan(PlanDraft):
    """Submit the plan. Faults come back with their names: correct them and submit again. Give many items by
    select, not one by one. A task that one agent can do has mode single and one step."""


class AskUser(Submitted):
    """Ask the person who gave the task, when the answer changes the plan and cannot be found in the files. The
    run waits for it."""

    question: str = Field(min_length=1)
    options: list[str] = Field(default=[], description="Answers to choose from, the recommended one first")


class SubmitReview(Submitted):
    """Give the verdict on the step. approved ends the review; retry sends the step back with your feedback;
    neither means that a person decides."""

    approved: bool
    retry: bool = False
    feedback: str = Field(default="", description="What to change and where; needed unless approved")
    findings: list[Finding] = Field(default=[], description="What people should know, also of work you approve")
    reopen: list[str] = Field(default=[], description="With retry: items of the step that must be done again")
    plan_adjustment: str | None = Field(default=None, description="What later steps should do differently")


class SubmitResolution(Submitted):
    """Report that the conflict is resolved in the files. Files that still hold conflict markers come back."""

    resolution: str = Field(description="What the files say now", min_length=1)
    rationale: str = Field(description="Why that is right for both sides", min_length=1)


class Ruling(Submitted):
    """What holds for one subject on which agents chose differently."""

    subject: str = Field(description="As in your assignment, or a subject that you found", min_length=1)
    contradicts: bool = Field(description="False where the choices go together")
    choice: str = Field(default="", description="The choice that holds, as in your assignment")
    redo: bool = Field(default=False, description="Whether files are still to be changed, by another agent")
    files: list[str] = Field(default=[], description="Those files; all of the steps that chose otherwise when absent")
    reason: str = Field(default="", description="Why, in a sentence")


class SubmitIntegration(Submitted):
    """Submit the integration report."""

    summary: str = Field(description="What the whole task changed, in a few sentences", min_length=1)
    consistency: list[str] = Field(default=[], description="Where the agents' work agrees or differs")
    conflicts: list[str] = Field(default=[], description="Contradictions that remain")
    rulings: list[Ruling] = Field(default=[], description="One for each contradiction in your assignment")
    findings: list[Finding] = Field(default=[])


class SubmitRoute(Submitted):
    """Say how the task is to be done."""

    mode: Literal["single", "sequential", "parallel"]
    confidence: float = Field(ge=0, le=1, description="How sure you are; below 0.7 a person is asked")
    reason: str = Field(description="Why, in one sentence", min_length=1)
    question: str = Field(default="", description="What a person must decide, where you are not sure")
    options: list[str] = Field(default=[], description="Answers to choose from, two to four")


class SubmitSummary(Submitted):
    """Submit the summary."""

    summary: str = Field(min_length=1)
