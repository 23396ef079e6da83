"""The artifacts of a task: where they are, and what they say of its run."""

from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from baton.names import task_id_fault
from baton.run_facts import FILES, HANDOFFS, RunFacts, run_facts
from baton.timeline import FRAME_FILES, Frame
from cli.checks import git
from cli.exits import Refused, ServiceError
from cli.terminal import remark

if TYPE_CHECKING:
    from cli.service import Service


async def artifacts_folder(task_id: str) -> Path:
    """The folder of a task: in this repository without a service, else where the service says.

    Raises `Refused` where there is none.
    """
    if (fault := task_id_fault(task_id)) is not None:
        raise Refused(fault)
    folder = _here(task_id) or await _told(task_id)
    if not folder.is_dir():
        raise Refused(f"there are no artifacts of {task_id} ({folder}): they are on the host of its worker, or gone")
    return folder


def facts_in(task_id: str, folder: Path) -> RunFacts:
    """The facts that the artifacts hold. Raises `Refused` where there is no trace of a run."""
    texts: dict[str, str] = {}
    for path in (*(folder / name for name in FILES), *folder.glob(HANDOFFS)):
        try:
            texts[path.name] = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror}") from error
    if not texts:
        raise Refused(f"{folder} holds nothing of a run yet; with persistState: false nothing of it is kept")
    return run_facts(task_id, texts)


def service_of(facts: RunFacts) -> "Service | None":
    """The service of a task that has not ended, as far as it is known; the files are enough where none can be used."""
    from cli.access import reading
    from cli.places import state_path

    try:
        return None if facts.reported or facts.broken_off else reading(state_path())
    except Refused as refused:
        remark(f"warning: {refused}", once=True)
        return None


async def with_status_now(facts: RunFacts) -> RunFacts:
    """The facts with the status of this moment, where the task runs still and can be asked."""
    from cli.service import connect
    from cli.tasks import Task

    service = service_of(facts)
    if service is None:
        return facts
    try:
        look = await Task(await connect(service), facts.task_id).look()
    except (Refused, ServiceError):
        return facts
    if look.closed or look.hint:
        return facts
    return facts.model_copy(update={"status": look.status, "seen_at": datetime.now(UTC)})


def page_frame() -> Frame:
    """The frame of the timeline's page."""
    page = files("baton.timeline_page")
    return Frame(**{part: page.joinpath(name).read_text(encoding="utf-8") for part, name in FRAME_FILES.items()})


def _here(task_id: str) -> Path | None:
    found = git(Path.cwd(), "rev-parse", "--show-toplevel")
    folder = Path(found.stdout.decode(errors="surrogateescape")[:-1]) / ".claude/orchestration" / task_id
    return folder if found.returncode == 0 and folder.is_dir() else None


async def _told(task_id: str) -> Path:
    from cli.reading_commands import service_for
    from cli.service import connect
    from cli.tasks import Task

    look = await Task(await connect(service_for(task_id)), task_id).look()
    told = look.status.artifacts
    return Path(told) if told else Path(look.status.repository) / ".claude/orchestration" / task_id
