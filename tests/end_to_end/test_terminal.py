"""The live view on a real terminal: keys approve and reject a waiting phase, Ctrl-C leaves the task alone."""

from collections.abc import Iterator

import pytest

from tests.end_to_end.desk import GATE, TASK, Desk, running_desk
from tests.end_to_end.terminal import Terminal

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with running_desk(tmp_path_factory.mktemp("desk")) as desk:
        yield desk


def test_a_phase_is_approved_and_rejected_with_keys(desk: Desk) -> None:
    terminal = Terminal(desk, "run", TASK, "--approve-phases", "--gate", GATE, "--task-id", "by-keys")
    terminal.until("keys: a approve")
    terminal.press("a")
    terminal.until("planning: approve?")
    terminal.press("y")
    # The keys of the first question may be shown once more before the second one comes.
    terminal.until("approval-2")
    terminal.until("keys: a approve")
    terminal.press("rnot now\r")
    assert terminal.ended() == 0
    assert "Done" in terminal.out
    assert "integration was rejected" in desk.run("status", "by-keys", "--json").stdout


def test_ctrl_c_says_how_to_come_back(desk: Desk) -> None:
    terminal = Terminal(desk, "run", TASK, "--approve-phases", "--gate", GATE, "--task-id", "left-alone")
    terminal.until("keys: a approve")
    terminal.press("\x03")
    assert terminal.ended() == 130
    assert "watch left-alone" in terminal.out
    assert "cancel left-alone" in terminal.out
    assert desk.run("cancel", "left-alone").returncode == 0
