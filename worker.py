"""The worker: composes settings, collaborators and Temporal's worker. No logic.

Two queues: `baton` for whole tasks and for opening one, and this host's own for everything that touches the folder
where the task's workspaces live, the agents included: a worker that has an agent and its activities begins the next
activity at once.
"""

import argparse
import asyncio
import gc
import logging
import os
import sys
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, ExternalStorage, StorageDriver
from temporalio.envconfig import ClientConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.agents import Agents
from activities.closed_tasks import ClosedTasks
from activities.commands import find_sandbox
from activities.credentials import Credentials
from activities.logs import log_to
from activities.merging import Merging
from activities.model import Model
from activities.model_client import ModelClient
from activities.notifying import Notifying
from activities.opening import Opening
from activities.prompts import system_prompt
from activities.quota import Gate, Pauses
from activities.repository import remove_left
from activities.routing import Routing
from activities.run_steps import RunSteps
from activities.running import RunningActivities
from activities.sandbox import Sandbox
from activities.scratch import scratch
from activities.search_attributes import ensure_search_attributes
from activities.stopping import DRAIN_LIMIT, Stopping
from activities.store import PayloadStorage
from activities.store_s3 import s3_payload_storage
from activities.synthesizing import Synthesizing
from activities.task_folder import Tasks
from activities.tasks import TaskWork
from activities.telemetry_wanted import is_wanted, saved_headers
from activities.turn import Turns
from baton.layout import payloads_folder, tasks_folder
from baton.models import build_all
from baton.names import TASK_QUEUE
from baton.roles import Role
from baton.tool_schemas import tools_for
from workflows.agent import AgentWorkflow
from workflows.orchestration import OrchestrationWorkflow
from workflows.quota import QuotaWorkflow

if TYPE_CHECKING:
    from activities.telemetry_export import Telemetry

PAYLOAD_THRESHOLD_BYTES = 128 * 1024
HEARTBEATS = timedelta(seconds=1)


def main() -> None:
    """Run until a signal asks to stop, then leave without the interpreter's own shutdown.

    CPython 3.11 with temporalio 1.35 now and then aborts there, after all work was done.
    """
    arguments = _arguments()
    log_to(sys.stderr, Credentials(arguments.state / "service" / "credentials.json").secrets)
    code = 0
    try:
        with scratch(arguments.state):
            asyncio.run(_work(arguments))
    except Exception:
        logging.getLogger("baton").exception("the worker stopped")
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _work(arguments: argparse.Namespace) -> None:
    async with AsyncExitStack() as stack:
        await _serve(arguments, await _connect(arguments, stack))


async def _serve(arguments: argparse.Namespace, client: Client) -> None:
    state: Path = arguments.state
    host_queue = f"{TASK_QUEUE}-{_host_id(state)}"
    tasks = Tasks(state)
    credentials = Credentials(state / "service" / "credentials.json")
    telemetry = _telemetry(state, credentials)
    model = Model(ModelClient(credentials).lend, gate=Gate(Pauses(client)))
    program = await find_sandbox()
    sandbox = Sandbox(program) if program else None
    searchable = await ensure_search_attributes(client)
    opening = Opening(tasks, model, credentials, host_queue, Path.home(), searchable=searchable)
    task_work = TaskWork(tasks, credentials, sandbox)
    merging = Merging(tasks, credentials)
    run_steps = RunSteps(tasks, credentials, sandbox)
    agents = Agents(tasks, model, credentials, sandbox)
    turns = Turns(tasks, model, credentials, sandbox)
    on_host: list[Callable[..., Any]] = [
        task_work.expand_plan,
        task_work.settle_plan,
        merging.merge_step,
        merging.merge_steps,
        merging.prepare_conflict,
        merging.settle_conflict,
        task_work.run_gates,
        task_work.publish,
        task_work.write_artifacts,
        task_work.load_progress,
        task_work.put_away,
        task_work.close_task,
        opening.discard_task,
        Notifying(tasks, credentials).notify_person,
        Routing(tasks, model).route,
        Synthesizing(tasks, model, credentials).summarize,
        run_steps.run_commands,
        agents.open_agent,
        agents.close_agent,
        turns.plan,
        turns.execute_step,
        turns.review,
        turns.resolve,
        turns.integrate,
    ]
    running = RunningActivities()
    options: dict[str, Any] = {
        "interceptors": [running, *([telemetry.delivery] if telemetry is not None else [])],
        # What the sandbox finds is found by the tests, which run and replay the workflows in it.
        "workflow_runner": UnsandboxedWorkflowRunner(),
        "sticky_queue_schedule_to_start_timeout": timedelta(seconds=2),
        "max_heartbeat_throttle_interval": HEARTBEATS,
        "default_heartbeat_throttle_interval": HEARTBEATS,
        "graceful_shutdown_timeout": DRAIN_LIMIT,
    }
    # Agents begun by older versions are on the common queue.
    workflows = [OrchestrationWorkflow, AgentWorkflow, QuotaWorkflow]
    common = Worker(client, task_queue=TASK_QUEUE, workflows=workflows, activities=[opening.open_task], **options)
    host = Worker(client, task_queue=host_queue, workflows=[AgentWorkflow], activities=on_host, **options)
    _warm_up()
    # What the imports made lives as long as we do; looking through it for garbage stopped all agents for 150 ms.
    gc.collect()
    gc.freeze()
    # Threads that wait for git and the disk get back in sooner than after the usual 5 ms.
    sys.setswitchinterval(0.0005)
    stopping = Stopping()
    closed_tasks = ClosedTasks(tasks, client)
    async with common, host:
        if arguments.ready_file is not None:
            arguments.ready_file.write_text(str(os.getpid()), encoding="utf-8")
        tidying = asyncio.create_task(asyncio.to_thread(remove_left, tasks_folder(state)))
        watching = asyncio.create_task(closed_tasks.watch())
        await stopping.wait((common, host), running)
        watching.cancel()
        tidying.cancel()
    if telemetry is not None:
        await telemetry.end()


def _telemetry(state: Path, credentials: Credentials) -> "Telemetry | None":
    """OpenTelemetry where it is wanted and installed; its SDK is not even loaded where it is not."""
    if not is_wanted(os.environ):
        return None
    try:
        from activities.telemetry_export import Telemetry

        return Telemetry(os.environ, saved_headers(state / "service" / "telemetry.json"), credentials.secrets)
    except ImportError:
        why = "the extra is not installed: pip install 'baton[otel]'"
    except ValueError as error:
        why = str(error)
    logging.getLogger("baton").warning("OTEL_* asks for telemetry, and there is none: %s", why)
    return None


def _warm_up() -> None:
    """Make what every task and every agent needs, so that the first ones need not wait for it."""
    build_all()
    for role in Role:
        system_prompt(role)
        tools_for(role)


async def _connect(arguments: argparse.Namespace, stack: AsyncExitStack) -> Client:
    driver: StorageDriver = PayloadStorage(payloads_folder(arguments.state))
    if arguments.payload_bucket:
        driver = await s3_payload_storage(arguments.payload_bucket, stack)
    logger = logging.getLogger("temporal.core")
    logging_config = LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=LogForwardingConfig(logger=logger)
    )
    converter = DataConverter(
        payload_converter_class=pydantic_data_converter.payload_converter_class,
        external_storage=ExternalStorage(drivers=[driver], payload_size_threshold=PAYLOAD_THRESHOLD_BYTES),
    )
    options: dict[str, Any] = {**ClientConfig.load_client_connect_config()}
    options["target_host"] = arguments.address or options.get("target_host") or "127.0.0.1:7233"
    options["namespace"] = arguments.namespace or options.get("namespace") or "default"
    runtime = Runtime(telemetry=TelemetryConfig(logging=logging_config))
    return await Client.connect(**options, data_converter=converter, runtime=runtime)


def _host_id(state: Path) -> str:
    """A stable name for this host, made once."""
    path = state / "host-id"
    if not path.exists():
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(uuid.uuid4().hex[:12], encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Baton's worker; `orchestrate up` starts one for you.")
    parser.add_argument("--state", type=Path, default=platformdirs.user_state_path("baton"))
    parser.add_argument("--address", help="Temporal's address; default: TEMPORAL_ADDRESS or the client profile")
    parser.add_argument("--namespace")
    parser.add_argument(
        "--payload-bucket",
        default=os.environ.get("BATON_PAYLOAD_BUCKET"),
        help="S3 bucket for large payloads, for workers on several hosts; default: BATON_PAYLOAD_BUCKET",
    )
    parser.add_argument("--ready-file", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
