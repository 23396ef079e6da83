"""A local Temporal server for workflow tests: one process for the whole session, a client for each test, and for the
modules that run the real activities one worker each."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from cli.dev_server import DYNAMIC_CONFIG
from tests.workflows.rig import Rig, running_rig


@pytest.fixture(scope="session")
def temporal_address() -> Iterator[str]:
    """The dev server of the installed package, tuned as the product's own."""
    extra = [argument for value in DYNAMIC_CONFIG for argument in ("--dynamic-config-value", value)]
    with asyncio.Runner() as runner:
        environment = runner.run(
            WorkflowEnvironment.start_local(
                dev_server_existing_path=str(Path(sys.executable).parent / "temporal"), dev_server_extra_args=extra
            )
        )
        yield environment.client.service_client.config.target_host
        runner.run(environment.shutdown())


@pytest.fixture
async def temporal(temporal_address: str) -> Client:
    """A client of this test's own event loop."""
    return await Client.connect(temporal_address, data_converter=pydantic_data_converter)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(temporal_address: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """The workflows with the real activities, in the event loop of the module's tests."""
    async with running_rig(temporal_address, tmp_path_factory.mktemp("rig")) as running:
        yield running
