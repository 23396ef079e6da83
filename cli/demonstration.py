"""The demo: a whole run on a sample repository with the stand-in model, in a state directory and service of its own.

Nothing of the user's is used or touched: not the API key, not a configured Temporal, not a repository.
"""

import os
import shlex
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cli import stand_in
from cli.checks import check_repository
from cli.places import command_for
from cli.service import Service, ensure, save_credentials, stop
from cli.starting import Order
from cli.terminal import Line, Tone

TASK = "Modernise the string formatting"
SERVICE_LIFE = timedelta(minutes=30)
MOST_AGENTS = 40


@dataclass(frozen=True)
class Pace:
    """`tokens_per_second` of the stand-in (a real model writes 50 to 150), and the output budget of an agent."""

    tokens_per_second: float
    output_budget_tokens: int


NORMAL = Pace(tokens_per_second=4_000, output_budget_tokens=8_000)
FAST = Pace(tokens_per_second=0, output_budget_tokens=12_000)


def start_service(state: Path, pace: Pace) -> Service:
    """The demo's service with the stand-in behind it."""
    with ThreadPoolExecutor(max_workers=1) as starting:
        model = starting.submit(stand_in.start, state, pace.tokens_per_second)
        service = ensure(state, exit_after=SERVICE_LIFE, embedded_only=True)
        url = model.result()
    save_credentials(state, {"ANTHROPIC_API_KEY": "stand-in", "ANTHROPIC_BASE_URL": url})
    return service


def stop_service(state: Path) -> bool:
    """End the service and the stand-in; whether anything ran."""
    ran = stop(state)
    return stand_in.stop(state) or ran


def sample_order(pace: Pace) -> Order:
    """The sample repository in a fresh temporary folder, and the task on it."""
    from baton.environment import allowed_environment
    from baton.messages import TaskInput
    from cli.sample import build_sample_repository

    repository = build_sample_repository(Path(tempfile.mkdtemp(prefix="baton-demo-")))
    source = check_repository(str(repository), None)
    # This interpreter has pytest; a python found on PATH need not.
    suite = {"name": "tests", "kind": "test", "command": f"{shlex.quote(sys.executable)} -m pytest -q", "timeout": "2m"}
    settings = {"outputBudget": pace.output_budget_tokens, "maxAgents": MOST_AGENTS, "gates": [suite], "sandbox": "off"}
    task_input = TaskInput(
        task=TASK, repository=source.repository, settings=settings, environment=allowed_environment(os.environ)
    )
    return Order(task_input, source)


def remove(order: Order) -> None:
    """Remove the sample repository and its folder."""
    shutil.rmtree(Path(order.input.repository).parent, ignore_errors=True)


def closing_lines(state: Path, service: Service, *, kept: bool) -> list[Line]:
    """What a person should know after a demo."""
    lines = [Line("The model was a stand-in that works by fixed rules: no AI was used, nothing was paid.", Tone.STRONG)]
    if not kept:
        return [*lines, Line("The sample repository was removed and the demo's service stopped.")]
    return [
        *lines,
        Line(
            f"The demo's Temporal and Web UI run on for {SERVICE_LIFE.total_seconds() / 60:.0f} minutes: "
            f"{service.ui_url}"
        ),
        Line("Stop them with: orchestrate down --demo"),
        Line(f"Its tasks: {command_for(state)} list", Tone.FAINT),
    ]
