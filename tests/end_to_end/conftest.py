"""One real service for all tests of a session that need one."""

from collections.abc import Iterator

import pytest

from tests.end_to_end.bench import Bench, running_bench


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Server, supervisor and worker on free ports in a state directory of their own."""
    with running_bench(tmp_path_factory.mktemp("bench")) as running:
        yield running
