"""The beginning of a task from a URL: what never succeeds is refused at once and leaves nothing, what passes is tried
again."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from baton.layout import task_lock
from baton.messages import TaskInput
from baton.names import BAD_INPUT
from baton.states import TaskState
from tests.end_to_end.bench import Rules, task
from tests.workflows.rig import Rig
from tests.workflows.test_closed_tasks import finishes

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED, CLONED = "info/refs", "objects/"
"""What git asks for first, and what only a clone asks for, of a host that gives nothing but files."""


@contextmanager
def served(folder: Path, broken: str, status: int, times: int) -> Iterator[tuple[str, list[str]]]:
    """A repository over HTTP that fails so often at what begins so; its URL, and what was asked for there."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            place = self.path.partition("?")[0].removeprefix("/project/.git/")
            if place.startswith(broken):
                asked.append(place)
                if len(asked) <= times:
                    self.send_error(status)
                    return
            super().do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/project/.git", asked
    finally:
        server.shutdown()
        server.server_close()


def project(rig: Rig) -> tuple[Path, TaskInput]:
    """A folder with a repository that can be served, and a task for it."""
    made = rig.repository(a="start\n")
    folder = made.with_name(f"{made.name}-served")
    folder.mkdir()
    made.rename(folder / "project")
    subprocess.run(["git", "-C", str(folder / "project"), "update-server-info"], check=True)
    return folder, task(folder / "project", "a.py")


@pytest.mark.parametrize("place", [ASKED, CLONED])
async def test_a_host_that_cannot_answer_for_a_moment_is_asked_again(rig: Rig, place: str) -> None:
    folder, given = project(rig)
    with rig.api(Rules(finishes)), served(folder, place, 503, 2) as (url, asked):
        result = await rig.run(given.model_copy(update={"repository": url}))
    assert result.state is TaskState.DONE, result.summary
    assert len(asked) > 2


@pytest.mark.parametrize(("place", "status"), [(ASKED, 404), (ASKED, 403), (CLONED, 403)])
async def test_what_is_refused_is_told_at_once_and_leaves_nothing(rig: Rig, place: str, status: int) -> None:
    folder, given = project(rig)
    with rig.api(Rules(finishes)), served(folder, place, status, 99) as (url, asked):
        handle = await rig.start(given.model_copy(update={"repository": url}))
        with pytest.raises(WorkflowFailureError) as raised:
            await handle.result()
    cause = raised.value.cause.__cause__
    assert isinstance(cause, ApplicationError)
    assert cause.type == BAD_INPUT
    assert str(status) in str(cause) or "not found" in str(cause)
    # Git itself looks twice: for a repository that answers, and for one of files only.
    assert asked.count(asked[0]) <= 2
    assert not rig.folder_of(handle.id).path.exists()
    assert not task_lock(rig.tasks.state, handle.id).exists()
