"""What the worker and the server of a service use while something runs: memory at its highest, processor time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from cli.service import Service

SAMPLE_SECONDS = 0.3


@dataclass
class Use:
    """Highest resident memory in MB and processor seconds (those of finished children included), by process."""

    worker_mb: float = 0
    server_mb: float = 0
    worker_cpu: float = 0
    children_cpu: float = 0
    server_cpu: float = 0


@contextmanager
def watched(service: Service) -> Iterator[Use]:
    """Watch the processes of a service in the block; the processor seconds are known after it."""
    assert service.worker is not None
    assert service.server is not None
    worker, server = psutil.Process(service.worker.pid), psutil.Process(service.server.pid)
    use, over = Use(), threading.Event()

    def sample() -> None:
        with suppress(psutil.Error):
            while not over.wait(SAMPLE_SECONDS):
                use.worker_mb = max(use.worker_mb, worker.memory_info().rss / 1e6)
                use.server_mb = max(use.server_mb, server.memory_info().rss / 1e6)

    before, server_before = worker.cpu_times(), server.cpu_times()
    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield use
    finally:
        over.set()
        thread.join()
    after, server_after = worker.cpu_times(), server.cpu_times()
    use.worker_cpu = after.user + after.system - before.user - before.system
    use.children_cpu = after.children_user + after.children_system - before.children_user - before.children_system
    use.server_cpu = server_after.user + server_after.system - server_before.user - server_before.system
