"""Commands of `run` steps: no name of a file, however odd, is ever more than one argument."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.command_results import commands_result, nothing_to_take, without_failures
from baton.ledger import ItemRecord, ItemStatus
from baton.messages import CommandsRun
from baton.plan import PlanStep
from baton.results import step_result
from baton.run_commands import BadCommand, command_for, faults_of_run, last_lines
from baton.states import AgentEnd, StepStatusWord

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
TEMPLATES = (
    "printf '%s\\0' {item}",
    'printf "%s\\0" "{item}"',
    "printf '%s\\0' '{item}'",
    "x=1; test $x = 1 && printf '%s\\0' -- {item} | tail -z -n 1",
    "printf '%s\\0' $(:) {item}",
    "for f in {item}; do printf '%s\\0' \"$f\"; done",
    "y=${x:-z}; printf '%s\\0' {item} 2>/dev/null",
    "cat /dev/null {item} 2>/dev/null; printf '%s\\0' {item}",
)


@settings(max_examples=60)
@given(NAMES, st.sampled_from(TEMPLATES))
def test_a_name_is_one_argument_and_nothing_else(name: str, template: str) -> None:
    done = subprocess.run(["bash", "-c", command_for(template, name)], capture_output=True, check=False)
    wanted = f"./{name}" if name.startswith("-") else name
    assert done.stdout == wanted.encode() + b"\0"


@pytest.mark.parametrize(
    "name",
    ["a b", "a'b", 'a"b', "a\nb", "-rf", "$(touch x)", "`touch x`", "a;b", "a=b", "2", "*", "~", "\\", "é", "#a", "!x"],
)
def test_odd_names(name: str) -> None:
    for template in TEMPLATES[:3]:
        done = subprocess.run(["bash", "-c", command_for(template, name)], capture_output=True, check=False)
        assert done.stdout.rstrip(b"\0").removeprefix(b"./") == name.encode()


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ('sh -c "codemod {item}"', "inside quotes"),
        ("sed -i 's/a/{item}/' x", "inside quotes"),
        ("echo `basename {item}`", "backticks"),
        ("echo ${item}", "no variable"),
        ("echo ${x:-{item}}", "inside quotes"),
        ("echo \\{item}", "backslash"),
        ("echo $((1 + {item}))", "arithmetic"),
        ("cat <<E\n{item}\nE", "here-documents"),
        ("ls # {item}", "comments"),
        ("echo $'x' {item}", "$'…'"),
        ('echo "$(basename "{item}")"', "inside quotes"),
        ('echo "$(date)" {item}', "a substitution inside quotes"),
        ("echo 'open {item}", "a closing ' is missing"),
    ],
)
def test_where_no_name_is_safe_is_a_fault(command: str, named: str) -> None:
    assert named in " ".join(faults_of_run(command, has_items=True))
    with pytest.raises(BadCommand):
        command_for(command, "a.py")


def test_faults_of_the_command_itself() -> None:
    assert "empty" in faults_of_run("  ", has_items=True)[0]
    assert "no items" in faults_of_run("x {item}", has_items=False)[0]
    assert "script" in faults_of_run("x" * 5000, has_items=True)[0]
    assert faults_of_run("make fmt # all of it's fine", has_items=False) == []


def test_a_note_is_the_end_of_the_output() -> None:
    assert last_lines("a  \n\n b\n") == "a\n b"
    assert last_lines("x" * 5000).startswith("…xxx")


STEP = PlanStep(step=1, agent_type="codemod", description="d", items=("a", "b"), run="x {item}")
CHANGED, FAILED = ItemRecord(item="a", status=ItemStatus.CHANGED), ItemRecord(item="b", status=ItemStatus.FAILED)


def result(*records: ItemRecord, taken: bool = False, **ran: object) -> tuple[StepStatusWord, list[str]]:
    told = CommandsRun.model_validate({"commit": "c", "records": records, "finished": True, **ran})
    found = step_result(STEP, commands_result(STEP, told, AgentEnd.FINISHED, failures_are_taken=taken), None)
    return found.status, [str(finding["finding"]) for finding in found.findings]


def test_failures_are_findings_unless_a_step_takes_them() -> None:
    bad = FAILED.model_copy(update={"note": "exit code 1: boom"})
    assert result(CHANGED, CHANGED.model_copy(update={"item": "b"})) == (StepStatusWord.OK, [])
    assert result(CHANGED, bad) == (StepStatusWord.PARTIAL, ["the command failed for 1 item: exit code 1: boom"])
    assert result(CHANGED, bad, taken=True) == (StepStatusWord.PARTIAL, [])
    both = (CHANGED.model_copy(update={"status": ItemStatus.FAILED}), bad)
    assert result(*both)[0] is StepStatusWord.FAILED
    assert result(*both, taken=True)[0] is StepStatusWord.PARTIAL
    assert result(refused="no")[0] is StepStatusWord.BLOCKED
    assert result(CHANGED, finished=False)[0] is StepStatusWord.PARTIAL


def test_a_step_whose_failures_were_taken_is_whole() -> None:
    told = CommandsRun(commit="c", records=(CHANGED, FAILED), finished=True)
    before = step_result(STEP, commands_result(STEP, told, AgentEnd.FINISHED, failures_are_taken=True), None)
    after = without_failures(before, (CHANGED,), 2)
    assert (after.status, after.items.total, after.items.done) == (StepStatusWord.OK, 1, 1)
    assert after.findings[-1]["finding"] == "1 item failed and went to step 2"
    assert without_failures(before, (CHANGED, FAILED), 2) == before
    assert nothing_to_take(STEP.model_copy(update={"failures_of": 1})).status is StepStatusWord.OK
