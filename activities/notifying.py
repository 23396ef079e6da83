"""Telling a person outside the terminal that a task waits or has ended: a command of their choice, or the desktop.

What is told reaches the command as variables and as JSON on its input, never as part of a shell line.
"""

import asyncio
import json
import os
import shutil
import sys
from datetime import timedelta

from temporalio import activity

from activities import commands
from activities.child_environment import child_environment
from activities.credentials import Credentials
from activities.pulse import pulse
from activities.task_folder import Tasks
from baton.messages import Notified, Notify
from baton.printed_secrets import printed
from baton.redaction import without_secrets

DESKTOP = "desktop"
"""The value of the setting that stands for the notifications of the system."""

TIME_LIMIT = timedelta(seconds=30)
FAULT_CHARACTERS = 300
_SESSION = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""How a program finds the desktop it is to show something on."""


class Notifying:
    """The activity that runs `notify`."""

    def __init__(self, tasks: Tasks, credentials: Credentials) -> None:
        self._tasks = tasks
        self._credentials = credentials

    @activity.defn(name="notify_person")
    async def notify_person(self, request: Notify) -> Notified:
        """Run the command. A failure is a sentence, never an error: nothing depends on it."""
        folder = self._tasks.folder(request.task_id)
        chosen = folder.record.opened.settings.notify
        if not chosen:
            return Notified()
        secrets = await self._credentials.secrets_around(folder.checkout)
        request = without_secrets(request, secrets)
        command = _desktop(request) if chosen == DESKTOP else chosen
        if command is None:
            return Notified(fault="no program to notify the desktop was found: notify-send, or osascript on macOS")
        environment = child_environment(folder.record.environment or {}) | _told(request)
        if chosen == DESKTOP:
            environment |= {name: os.environ[name] for name in _SESSION if name in os.environ}
        async with pulse("notifying"):
            result = await commands.run(
                command,
                cwd=folder.checkout or folder.path,
                environment=environment,
                time_limit=TIME_LIMIT,
                stdin=json.dumps(request.model_dump(mode="json"), ensure_ascii=False).encode(),
            )
        if result.timed_out:
            return Notified(fault=f"it took longer than {TIME_LIMIT.seconds} s and was ended")
        if result.exit_code == 0:
            return Notified()
        output = await asyncio.to_thread(printed, result.output, secrets)
        told = " ".join(output.split())[-FAULT_CHARACTERS:]
        return Notified(fault=f"it ended with {result.exit_code}" + (f": {told}" if told else ""))


def _told(request: Notify) -> dict[str, str]:
    return {"BATON_EVENT": request.event, "BATON_TASK_ID": request.task_id, "BATON_TEXT": request.text}


def _desktop(request: Notify) -> list[str] | None:
    """The program that shows a notification here; None where there is none."""
    title = f"Baton: {request.task_id}"
    if sys.platform == "darwin" and (program := shutil.which("osascript")):
        script = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
        return [program, "-e", script, title, request.text]
    program = shutil.which("notify-send")
    return [program, "--app-name=Baton", "--", title, request.text] if program else None
