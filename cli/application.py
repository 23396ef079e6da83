"""The `orchestrate` program: its commands, the task that needs no command, and how every command ends.

Importing a command's room imports neither temporalio nor rich: each command brings its own when it runs.
"""

import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cli import (
    applying,
    cleaning,
    doctor,
    history_commands,
    insight_commands,
    reading_commands,
    resuming,
    reviewing,
    run_command,
    service_commands,
    settings_command,
    steering_commands,
)
from cli.exits import ExitCode, Refused, ServiceError
from cli.naming import mistaken_command
from cli.terminal import begin_command, is_terminal, remark

NAME = "orchestrate"
DEFAULT = "run"
ROOMS = (
    run_command,
    reading_commands,
    steering_commands,
    resuming,
    history_commands,
    reviewing,
    applying,
    cleaning,
    insight_commands,
    settings_command,
    service_commands,
    doctor,
)
"""Rooms of commands, in the order of the help."""
_HELP = """One large coding task, many agents, nothing lost.

\b
orchestrate "Migrate to TypeScript"    start a task in this repository and follow it
orchestrate watch TASK_ID              follow it again, from any terminal
orchestrate demo                       see a whole run, without a key

Without a command, the words are a task: the same as `orchestrate run "TASK"` and its options.
"""


class Commands(TyperGroup):
    """Commands, and a default one for words that are none. Turns refusals into exit codes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` before a task; refuse a word that was meant as a command, and a task that looks like an option."""
        task = args[1:2] if args[:1] == [DEFAULT] else args[:1]
        if task and task[0].startswith("-") and " " in task[0].partition("=")[0].strip():
            ctx.fail(
                f"a task that begins with a dash comes after two of them: {NAME} {DEFAULT} -- {shlex.quote(task[0])}"
            )
        if args and args[0] not in self.commands and not self._is_own_option(args[0]):
            fault = mistaken_command(self._words(ctx, args), tuple(self.commands))
            if fault is not None:
                ctx.fail(fault)
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A refusal is a message and exit 2, a service that does not come up one and exit 1."""
        begin_command()
        try:
            return super().invoke(ctx)
        except Refused as refused:
            remark(f"{NAME}: {refused}")
            raise typer.Exit(ExitCode.BAD_INPUT) from refused
        except ServiceError as error:
            remark(f"{NAME}: {error}")
            raise typer.Exit(ExitCode.FAILED) from error

    def _is_own_option(self, word: str) -> bool:
        own = {"--help"} | {name for parameter in self.params for name in parameter.opts}
        return word.partition("=")[0] in own

    def _words(self, ctx: Any, args: Sequence[str]) -> list[str]:
        """The words that are neither options nor their values."""
        command = self.commands[DEFAULT]
        context = type(ctx)(command, info_name=DEFAULT, parent=ctx, ignore_unknown_options=True)
        given, left, _ = command.make_parser(context).parse_args(list(args))
        words = [*(given.get("words") or ()), *left]
        return [word for word in words if word == "-" or not word.startswith("-")]


def build() -> typer.Typer:
    """The program. Help has boxes and colours on a terminal only."""
    application = typer.Typer(
        name=NAME,
        cls=Commands,
        no_args_is_help=True,
        rich_markup_mode="rich" if is_terminal() else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    )
    application.callback(help=_HELP)(_options)
    for room in ROOMS:
        room.register(application)
    return application


def run(arguments: Sequence[str]) -> int:
    """Run a command line; the exit code. Nothing is raised, whatever happens."""
    try:
        typer.main.get_command(build())(list(arguments), prog_name=NAME)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception:  # noqa: BLE001 - the last resort: whatever it is must be told and become an exit code
        traceback.print_exc()
        remark(f"{NAME}: this is a fault of Baton itself; please report it with the lines above")
        return ExitCode.FAILED
    return ExitCode.DONE


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            told = version("baton")
        except PackageNotFoundError:
            told = "from a checkout that is not installed"
        typer.echo(f"{NAME} {told}, Python {sys.version.partition(' ')[0]}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of the program itself."""
