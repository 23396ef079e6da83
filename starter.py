"""The `orchestrate` command line: composes `cli`. No logic.

It ends with `os._exit`: CPython 3.11 with temporalio 1.35 now and then aborts in the interpreter's own shutdown, after
all work was done.
"""

import contextlib
import gc
import os
import sys
from typing import NoReturn

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Imports make many objects and drop none: looking for garbage at every 700 takes a tenth of a short command."""


def main() -> NoReturn:
    """Run the command line of this process and leave with its exit code."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    from cli.application import run

    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a reader that has gone, a stream that is closed
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
