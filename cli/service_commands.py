"""Commands of the local service: `up`, `down`, and `demo`, which has a service of its own."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal import Line, Tone, remark, show, show_json

if TYPE_CHECKING:
    from cli.service import Service

_UP = """\b
Examples:
  orchestrate up
  TEMPORAL_ADDRESS=temporal.example:7233 orchestrate up
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


def up(as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """Start what is needed and show where it is."""
    from cli.access import working
    from cli.places import state_path

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
    from cli.places import demo_state_path, state_path
    from cli.service import stop

    ran = demonstration.stop_service(demo_state_path()) if of_demo else stop(state_path())
    what = "the demo's service" if of_demo else "the service"
    show([Line(f"Stopped {what}." if ran else f"Nothing to stop: {what} does not run.")])


def _service_lines(service: "Service") -> list[Line]:
    kind = f"embedded, version {service.server_version}" if service.embedded else "not ours"
    lines = [
        Line("The service is up.", Tone.GOOD),
        Line(f"Temporal    {service.address}, namespace {service.namespace} ({kind})", indent=1),
    ]
    if service.ui_url:
        lines.append(Line(f"Web UI      {service.ui_url}", indent=1))
    lines.append(Line(f"worker log  {service.worker_log}", indent=1))
    if service.embedded:
        lines.append(Line(f"server log  {service.server_log}", indent=1))
    return lines
