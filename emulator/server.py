"""Runs the emulator: in this process for a test, or until a signal as a process of its own. Loopback only."""

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from emulator.app import MessagesApi
from emulator.journal import Exchange, Journal
from emulator.reply import Model

HOST = "127.0.0.1"
START_SECONDS = 20.0


class EmulatorServer:
    """A Messages API around `model`, served from a thread while the context is open.

    `url` is the base URL for a client. `requests` are the exchanges so far, `bodies` their decoded bodies in the
    same order. Keys put into `refused_keys` are answered with 401 from then on. With `port` 0 a free port is taken.
    `tokens_per_second` 0 means no pacing.
    """

    def __init__(
        self,
        model: Model,
        *,
        journal: Path | None = None,
        tokens_per_second: float = 0,
        port: int = 0,
        keep: bool = True,
    ) -> None:
        self.journal = Journal(journal, keep)
        self._socket = listen(port)
        self.url = f"http://{HOST}:{self._socket.getsockname()[1]}"
        api = MessagesApi(model, self.journal, self._hang_up, tokens_per_second)
        self.refused_keys = api.refused_keys
        config = uvicorn.Config(
            api.asgi,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=60,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def requests(self) -> list[Exchange]:
        return self.journal.exchanges

    @property
    def bodies(self) -> list[dict[str, Any] | None]:
        return self.journal.bodies

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve, name="emulator", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(START_SECONDS)

    def serve(self) -> None:
        """Serve until told to stop. The socket listens since construction, so no request is refused before."""
        with contextlib.closing(self._socket):
            self._server.run(sockets=[self._socket])

    def _hang_up(self, client: Any) -> None:
        for connection in tuple(self._server.server_state.connections):
            if getattr(connection, "client", None) == client and connection.transport is not None:
                connection.transport.close()


def listen(port: int) -> socket.socket:
    """A listening socket on the loopback address.

    Raises:
        OSError: the port is taken.
    """
    # Named as TCP, so that asyncio sends each piece at once: else the end of an answer waits 40 ms for its beginning.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    return listener
