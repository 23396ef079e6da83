"""Tells the service manager that started this process, if one did, that the service is up."""

import os
import socket
from contextlib import suppress

_ADDRESS = "NOTIFY_SOCKET"


def notify_ready() -> None:
    """Send READY=1, once; the address is not passed on to children."""
    address = os.environ.pop(_ADDRESS, None)
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.connect("\0" + address[1:] if address.startswith("@") else address)
        notified.sendall(b"READY=1")
