"""Planted secrets of every kind, and a look for them in everything that a finished task leaves."""

import base64
import logging
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError

from baton.plan import PlanDraft
from baton.states import TaskState
from emulator.dialogue import Dialogue
from emulator.reply import Block, ToolUse
from tests.end_to_end import bench
from tests.end_to_end.bench import Handle, Rules, git, task
from tests.workflows.rig import Rig, attention, until
from tests.workflows.test_agent_workflow import editing

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "key-of-the-test"
PASSWORD, COPIED, NESTED, GONE = "hunter2-is-a-pass", "copied9-is-a-pass", "nested4-is-a-pass", "gone8-is-a-password"
GITHUB, ANTHROPIC, AMAZON = "ghp_" + "a1B2" * 9, "sk-ant-api03-" + "x7Y8" * 10, "AKIA" + "ABCD1234" * 2
README_TOKEN, GUIDE_TOKEN = "ghp_" + "z9Q8" * 9, "xoxb-" + "12345678901-" * 2 + "abcdefABCDEF"
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n-----END PRIVATE KEY-----\n"
PLANTED = (KEY, PASSWORD, COPIED, NESTED, GONE, GITHUB, ANTHROPIC, AMAZON, README_TOKEN, GUIDE_TOKEN, KEY_LINE)

_NINE, _TEN = "1 2 3 4 5 6 7 8 9", "1 2 3 4 5 6 7 8 9 10"
PRINT = (
    f"printf gh; printf p_; printf 'a1B2%.0s' {_NINE}; echo; printf sk-; printf ant-api03-; printf 'x7Y8%.0s' {_TEN}; "
    "echo; printf AK; printf IA; printf 'ABCD1234%.0s' 1 2; echo; "
    "cat .env .env.local a/b/c/.env server.pem; sed -n 2p server.pem"
)
"""Prints most of them, without holding one itself."""

CUT = (
    "for n in 24990 24991 24995 24999 25000; do head -c $n /dev/zero | tr '\\0' x; cat .env; "
    "head -c 40000 /dev/zero | tr '\\0' y; done"
)
"""Prints a value across the place where a long output is cut."""

COMMANDS = (
    PRINT,
    CUT,
    "cat .env.gone; rm .env.gone",
    "base64 .env; base64 -w 0 .env.local; base64 server.pem; (printf x; cat .env) | base64",
    "xxd -p .env; od -An -tx1 .env | tr -d ' '",
    "cat .env.gone.old; true",
    "cat .env > a/theirs.txt; cat .env.local >> b/.env",
    "cat .env.local > stolen.txt; base64 -w 20 .env.local > stolen.b64; cat a/b/c/.env >> a.py; echo kept > new.txt",
)
FILES = {
    "a.py": "old\n",
    "a/theirs.txt": "theirs\n",
    "b/.env": "PORT=80\n",
    ".env": f"DB_PASSWORD={PASSWORD}\n",
    ".env.gone": f"DB_PASSWORD={GONE}\n",
    "a/b/c/.env": f"DB_PASSWORD={NESTED}\n",
    ".gitignore": ".env.local\n",
    "server.pem": PEM,
    "README.md": f"Use {README_TOKEN}.\n",
    "CLAUDE.md": f"Use {GUIDE_TOKEN}.\n",
    ".claude/agents/editor.md": f"---\nname: editor\ndescription: Use {README_TOKEN}\n---\nUse {GUIDE_TOKEN}.\n",
}


def project(rig: Rig) -> Path:
    source = bench.repository(rig.folder / f"project-{next(rig.numbers)}", FILES)
    (source / ".env.local").write_text(f"DB_PASSWORD={COPIED}\n", encoding="utf-8")
    return source


def curious(dialogue: Dialogue) -> Sequence[Block]:
    """A model that looks at everything."""
    if not dialogue.calls:
        looks = [ToolUse("read", {"file_path": path}) for path in (".env", "server.pem", "README.md", "a/b/c/.env")]
        looks += [ToolUse("grep", {"pattern": "PASSWORD|MII|ghp"})]
        edit = ToolUse("edit", {"file_path": "a.py", "old_string": "old", "new_string": "new"})
        return [*looks, *(ToolUse("bash", {"command": command}) for command in COMMANDS), edit]
    if not dialogue.done("complete_item"):
        return [ToolUse("complete_item", {"item": "a.py"})]
    return [ToolUse("finish_step", {"status": "ok", "summary": "looked at everything"})]


async def stores(rig: Rig, handle: Handle, source: Path) -> dict[str, bytes]:
    """Everything that a task leaves, by place: histories, files of the state directory, artifacts, new git objects."""
    found = {}
    async for one in rig.client.list_workflows(f"WorkflowId STARTS_WITH '{handle.id}'"):
        run = rig.client.get_workflow_handle(one.id, run_id=one.run_id)
        history = await run.fetch_history()
        found[f"history of {one.id}"] = b"\n".join(event.SerializeToString() for event in history.events)
    for folder in (rig.folder_of(handle.id).path, source / ".claude/orchestration"):
        found |= {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and "repo.git" not in p.parts}
    repository = rig.folder_of(handle.id).repository.path
    if repository.is_dir():
        found |= dict(
            _objects(repository, known=set(git(source, "cat-file", *ALL, "--batch-check=%(objectname)").split()))
        )
        found["git log"] = git(repository, "log", "--all", "--format=%B").encode()
    return found


ALL = ("--batch-all-objects",)


def _objects(repository: Path, known: set[str]) -> Iterator[tuple[str, bytes]]:
    for name in set(git(repository, "cat-file", *ALL, "--batch-check=%(objectname)").split()) - known:
        shown = subprocess.run(["git", "-C", str(repository), "cat-file", "-p", name], check=True, capture_output=True)
        yield f"git object {name}", shown.stdout


def leaks(found: dict[str, bytes], planted: Sequence[str] = PLANTED) -> list[str]:
    """Where a secret stands, or a part of one that is long enough to be worth something."""
    parts = [(secret, part) for secret in planted for part in (secret[:12], secret[-12:], *_coded(secret))]
    return sorted(
        {f"{secret} in {place}" for place, data in found.items() for secret, part in parts if part.encode() in data}
    )


def _coded(secret: str) -> list[str]:
    """A secret in base64, in hex, and as a URL has it."""
    inner = [base64.b64encode(bytes(before) + secret.encode()).decode()[4:-4] for before in range(3)]
    return [*inner, secret.encode().hex(), secret.encode().hex().upper()]


async def test_no_secret_is_in_anything_that_a_task_leaves(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source = project(rig)
    gate = {"name": "leaky", "command": f"{PRINT}; head -c 7990 /dev/zero | tr '\\0' z; cat .env; false"}
    with rig.api(Rules(curious)) as api:
        handle = await rig.start(task(source, "a.py", gates=[gate], copy=[".env.local"], setup=["cat .env .env.local"]))
        result = await handle.result()
        sent = [str(body) for body in api.bodies]
    assert result.state in {TaskState.DONE, TaskState.PARTIAL}
    found = await stores(rig, handle, source)
    assert len([place for place in found if place.startswith("history")]) == 2
    assert any("report.md" in place for place in found)
    found |= {"log": caplog.text.encode(), "model": "\n".join(sent).encode()}
    assert leaks(found) == []
    assert "[secret]" in found["model"].decode()
    told = found["model"].decode()
    assert "A command put a secret of the user" in told
    assert "a.py, stolen.b64, stolen.txt" in told
    report = next(data.decode() for place, data in found.items() if place.endswith("/report.md"))
    assert "a command wrote a secret into a.py and 2 other files" in report
    published = git(source, "ls-tree", "-r", "--name-only", f"baton/{handle.id}").split()
    assert "new.txt" in published
    assert not {"stolen.txt", "stolen.b64"} & set(published)
    assert git(source, "show", f"baton/{handle.id}:a.py").strip() == "new"


async def test_a_set_up_that_fails_tells_no_secret(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    source = project(rig)
    with rig.api(Rules(curious)):
        handle = await rig.start(task(source, "a.py", copy=[".env.local"], setup=[f"{PRINT}; false"]))
        result = await handle.result()
    found = await stores(rig, handle, source)
    assert result.state is TaskState.FAILED
    assert "the set-up command" in caplog.text, "it says what failed, and what that printed"
    found["log"] = caplog.text.encode()
    assert leaks(found) == []


class Asking:
    """A planner that asks first, and an executor that edits."""

    def __call__(self, dialogue: Dialogue) -> Sequence[Block]:
        if dialogue.assignment["role"] != "planner":
            return editing(dialogue)
        if not dialogue.done("ask_user") and not dialogue.assignment["guidance"]:
            return [ToolUse("ask_user", {"question": "Which user?"})]
        return [ToolUse("submit_plan", PLAN)]


PLAN = {"plan": [{"step": 1, "agent_type": "editor", "description": "edit", "items": ["a.py"]}]}
TOLD = f"Use {COPIED}, {KEY} and {GITHUB}."


async def test_secrets_that_other_clients_signal_go_no_further(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """They are in the history of the signal itself, by the sender's hand; in nothing that follows from it."""
    caplog.set_level(logging.INFO)
    source = project(rig)
    given = task(source, "a.py", requireApproval=True).model_copy(update={"plan": None})
    with rig.api(Rules(Asking())) as api:
        handle = await rig.start(given)
        item = await attention(handle)
        await handle.signal("answer", {"attention_id": item.id, "choice": "other", "comment": f"1. {TOLD}"})
        await until(handle, lambda now: any(one.kind == "approval" for one in now.attention))
        await handle.signal("answer", {"attention_id": TOLD, "choice": "x"})
        await handle.signal("guide", {"text": f"2. {TOLD}"})
        await handle.signal("reject", {"phase": "planning", "comment": f"3. {TOLD}"})
        plans = rig.folder_of(handle.id).path / "plan.json"
        await until(handle, lambda now: any(one.kind == "approval" and one.id != "approval-2" for one in now.attention))
        await handle.signal("approve", {"phase": "planning", "comment": f"4. {TOLD}"})
        await until(handle, lambda now: any(one.phase == "integration" for one in now.attention))
        await handle.signal("approve", {"phase": "integration", "comment": f"5. {TOLD}"})
        result = await handle.result()
        sent = "\n".join(str(body) for body in api.bodies)
    assert result.state is TaskState.DONE
    assert plans.is_file()
    found = await stores(rig, handle, source) | {"log": caplog.text.encode(), "model": sent.encode()}
    histories = {place: found.pop(place) for place in list(found) if place.startswith("history")}
    assert leaks(found) == []
    assert all(f"{number}. Use [secret], [secret] and [secret]." in sent for number in (1, 2, 3))
    token = {place: data for place, data in histories.items() if place != f"history of {handle.id}"}
    assert leaks(token, [GITHUB]) == []


GATE = {"name": "login", "command": f"login {COPIED}"}
STEP = {"step": 1, "agent_type": "x", "description": "edit", "items": ["a.py"]}


@pytest.mark.parametrize(
    ("where", "changes"),
    [
        ("the task", {"task": f"Why is {COPIED} refused?"}),
        ("--gate login", {"settings": {"gates": [GATE]}}),
        ("--plan: step 1, run", {"plan": PlanDraft.model_validate({"plan": [STEP | {"run": f"login {COPIED}"}]})}),
    ],
)
async def test_a_task_that_names_a_known_secret_is_refused(rig: Rig, where: str, changes: dict[str, object]) -> None:
    given = task(project(rig), "a.py").model_copy(update=changes)
    with rig.api(Rules(curious)), pytest.raises(WorkflowFailureError) as failed:
        await rig.run(given)
    told = str(getattr(failed.value.cause, "cause", failed.value.cause))
    assert f"{where} holds a value that is a secret here" in told
    assert COPIED not in told


async def test_a_token_that_a_run_step_wrote_is_on_no_branch_and_in_the_report(rig: Rig) -> None:
    source = project(rig)
    write = f"{{ printf gh; printf p_; printf 'a1B2%.0s' {_NINE}; }} > r.txt; echo fine > s.txt"
    run = STEP | {"items": [], "owns": ["r.txt", "s.txt", "k.pem"], "run": f"{write}; cp server.pem k.pem"}
    given = task(source, "a.py").model_copy(update={"plan": PlanDraft.model_validate({"plan": [run]})})
    with rig.api(Rules(curious)):
        handle = await rig.start(given)
        await handle.result()
    published = git(source, "ls-tree", "-r", "--name-only", f"baton/{handle.id}").split()
    assert "s.txt" in published
    assert "r.txt" not in published
    found = await stores(rig, handle, source)
    assert leaks(found, [GITHUB]) == []
    report = next(data.decode() for place, data in found.items() if place.endswith("/report.md"))
    assert "changes that held secrets were taken back" in report
    assert "r.txt" in report
