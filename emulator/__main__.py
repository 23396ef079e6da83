"""`python -m emulator`: the emulator with the stand-in model as a process of its own."""

import argparse
import contextlib
import os
import sys
from pathlib import Path

from emulator.server import EmulatorServer
from emulator.standin import StandIn


def main() -> int:
    """Serve until SIGINT or SIGTERM. 0 when stopped, 2 when the port is taken."""
    options = _parser().parse_args()
    try:
        server = EmulatorServer(
            StandIn(),
            journal=options.journal,
            tokens_per_second=options.tokens_per_second,
            port=options.port,
            keep=False,
        )
    except OSError as error:
        sys.stderr.write(f"emulator: port {options.port} cannot be used: {error}. Take another, or --port 0.\n")
        return 2
    # The socket listens already: whoever connects now is served as soon as the loop runs.
    line = f"ready {server.url}\n"
    if options.ready_file is not None:
        _write_atomically(options.ready_file, line)
    sys.stdout.write(line)
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m emulator",
        description="A strict local Messages API with a rule-based stand-in model (no AI). Loopback only.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--journal", type=Path, metavar="FILE", help="append one JSON line per request")
    parser.add_argument("--tokens-per-second", type=float, default=0, metavar="N", help="0: no pacing")
    parser.add_argument("--ready-file", type=Path, metavar="FILE", help="gets the same line as the terminal")
    return parser


def _write_atomically(file: Path, text: str) -> None:
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)


if __name__ == "__main__":
    sys.exit(main())
