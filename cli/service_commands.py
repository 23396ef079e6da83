"""Commands of the local service: `up`, `down`, and `demo`, which has a service of its own."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.exits import Refused
from cli.terminal import Line, Tone, remark, show, show_json

if TYPE_CHECKING:
    from cli.service import Service

_UP = """\b
Examples:
  orchestrate up
  TEMPORAL_ADDRESS=temporal.example:7233 orchestrate up
  orchestrate up --systemd          write a user unit, and enable it if you agree
  orchestrate up --systemd --yes    without asking
"""
_DOWN = """\b
Examples:
  orchestrate down
  orchestrate down --demo

Running tasks stop where they are and go on with the next `orchestrate up`.
"""
_DEMO = """\b
Examples:
  orchestrate demo
  orchestrate demo --fast --no-keep

The model is a stand-in that works by fixed rules. No key is needed, nothing leaves this machine.
"""


def register(application: typer.Typer) -> None:
    """Add the commands."""
    application.command("demo", help="A whole run on a sample repository, without a key.", epilog=_DEMO)(demo)
    application.command("up", help="Start the local service.", epilog=_UP)(up)
    application.command("down", help="Stop the local service.", epilog=_DOWN)(down)


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="The stand-in answers at once.")] = False,
    keep: Annotated[bool, typer.Option("--keep/--no-keep", help="Keep the sample repository and the service.")] = True,
) -> None:
    """Run the demo."""
    from cli import demonstration
    from cli.places import demo_state_path
    from cli.run_command import start_and_follow

    state = demo_state_path()
    pace = demonstration.FAST if fast else demonstration.NORMAL
    remark("Starting a Temporal server, a worker and a stand-in model (no AI) of the demo's own …")
    service = demonstration.start_service(state, pace)
    order = demonstration.sample_order(pace)
    code = None
    try:
        show([Line(f"Repository: {order.input.repository}"), Line(f"Task: {order.input.task}")])
        code = start_and_follow(order, service)
    finally:
        if not keep:
            demonstration.remove(order)
            demonstration.stop_service(state)
    show(demonstration.closing_lines(state, service, kept=keep))
    raise typer.Exit(code)


def up(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    as_unit: Annotated[bool, typer.Option("--systemd", help="As a unit of your systemd, from login on.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --systemd: enable it without asking.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --systemd: overwrite an edited unit.")] = False,
) -> None:
    """Start what is needed and show where it is."""
    from cli.access import working
    from cli.places import state_path

    if as_unit:
        from cli.unit_installation import install

        if not install(state_path(), enable=yes, force=force):
            return
    elif yes or force:
        raise Refused("--yes and --force belong to --systemd")
    service = working(state_path())
    if as_json:
        show_json(service.model_dump(mode="json"))
    else:
        show(_service_lines(service))


def down(
    of_demo: Annotated[bool, typer.Option("--demo", help="The demo's service instead.")] = False,
) -> None:
    """Stop the service."""
    from cli import demonstration
    from cli.access import configured_elsewhere
    from cli.places import demo_state_path, state_path
    from cli.service_record import ServiceFiles
    from cli.unit_installation import still_enabled, stop_all

    state = demo_state_path() if of_demo else state_path()
    record = ServiceFiles(state).read()
    ran = demonstration.stop_service(state) if of_demo else stop_all(state)
    what = "the demo's service" if of_demo else "the service"
    where = f" (its Temporal was {record.address})" if record is not None else ""
    lines = [Line(f"Stopped {what}{where}." if ran else f"Nothing to stop: {what} does not run (its folder: {state}).")]
    if not of_demo:
        lines += [Line(told) for told in (configured_elsewhere(record), still_enabled(state)) if told]
    show(lines)


def _service_lines(service: "Service") -> list[Line]:
    kind = f"embedded, version {service.server_version}" if service.embedded else "not ours"
    lines = [
        Line("The service is up.", Tone.GOOD),
        Line(f"Temporal    {service.address}, namespace {service.namespace} ({kind})", indent=1),
    ]
    if service.ui_url:
        lines.append(Line(f"Web UI      {service.ui_url}", indent=1))
    lines.append(Line(f"API key     {_key_line(service)}", indent=1))
    lines.append(Line(f"worker log  {service.worker_log}", indent=1))
    if service.embedded:
        lines.append(Line(f"server log  {service.server_log}", indent=1))
    return lines


def _key_line(service: "Service") -> str:
    from cli.model_check import saved_credentials
    from cli.service_record import ServiceFiles

    saved = saved_credentials(ServiceFiles(service.directory.parent))
    return f"{' and '.join(saved)}, kept for the worker" if saved else "none: export ANTHROPIC_API_KEY=…, then up again"
