"""The artifacts folder: the files of a task that people read.

It is the only thing besides one ref that a task leaves in the user's repository, and keeps itself out of git by a
`.gitignore` of its own. Files appear whole; a handoff keeps its number however often it is written.
"""

import json
import logging
import os
import re
import shutil
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import to_json

from baton.layout import ISSUES
from baton.manifest import Manifest
from baton.messages import Artifact
from baton.plan import Plan
from baton.redaction import masked_value
from baton.report import plan_artifacts
from baton.reviewing import with_decisions
from baton.run_facts import FILES, HANDOFFS, run_facts
from baton.timeline import FRAME_FILES, TIMELINE, Frame, render

logger = logging.getLogger("baton.artifacts")

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The one in C is five times as fast; some platforms have PyYAML without it."""

HANDOFF_NAME = re.compile(r"agent-(\d+)-handoff\.json")


class Artifacts:
    """The artifacts of one task below `folder`. `secrets` get into no file: a person may have told one to the task."""

    def __init__(self, folder: Path, secrets: frozenset[str] = frozenset()) -> None:
        self._folder = folder
        self._secrets = secrets

    def create(self) -> None:
        """Make the folder. Raises FileExistsError when the task already has one with files in it."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        ignore = self._folder.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        self._folder.mkdir(exist_ok=True)

    def remove(self) -> None:
        """Remove the folder with everything in it, and the folders above that it was alone in."""
        shutil.rmtree(self._folder, ignore_errors=True)
        parent = self._folder.parent
        if {path.name for path in parent.iterdir()} <= {".gitignore"}:
            shutil.rmtree(parent, ignore_errors=True)
            with suppress(OSError):
                parent.parent.rmdir()

    def write(self, artifact: Artifact) -> None:
        """Write one file. ValueError when its name leads out of the folder."""
        path = self._folder / artifact.name
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise ValueError(f"the artifact name {artifact.name!r} leads out of the artifacts folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        if artifact.name == ISSUES and path.exists():
            artifact = artifact.model_copy(update={"value": with_decisions(artifact.value, _issues_in(path))})
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(self._rendered(artifact), encoding="utf-8")
        temporary.replace(path)

    def write_plan(self, plan: Plan) -> None:
        """Write `plan.json` and the specs of its steps; an earlier plan that differs becomes `plan.<n>.json`."""
        current = self._folder / "plan.json"
        artifacts = plan_artifacts(plan)
        if current.exists() and current.read_text(encoding="utf-8") != self._rendered(artifacts[0]):
            numbers = (path.name.split(".")[1] for path in self._folder.glob("plan.*.json"))
            number = 1 + max((int(number) for number in numbers if number.isdigit()), default=0)
            current.replace(self._folder / f"plan.{number}.json")
        for artifact in artifacts:
            self.write(artifact)

    def write_timeline(self, task_id: str) -> None:
        """Draw `timeline.html` from what the folder holds. A page that cannot be drawn costs nothing but itself."""
        try:
            self.write(Artifact(name=TIMELINE, form="text", value=self._drawn(task_id)))
        except Exception:
            logger.exception("the timeline of %s cannot be drawn", task_id)

    def _drawn(self, task_id: str) -> str:
        names = [*FILES, *(path.name for path in self._folder.glob(HANDOFFS))]
        texts = {name: text for name in names if (text := _text_of(self._folder / name)) is not None}
        page = files("baton.timeline_page")
        frame = {part: page.joinpath(name).read_text(encoding="utf-8") for part, name in FRAME_FILES.items()}
        return render(run_facts(task_id, texts), Frame(**frame))

    def _rendered(self, artifact: Artifact) -> str:
        return _rendered(artifact.model_copy(update={"value": masked_value(artifact.value, self._secrets)}))

    def write_handoff(self, manifest: Manifest) -> str:
        """Write `agent-<n>-handoff.json`, `n` in order of time; returns its name."""
        names = sorted((path.name for path in self._folder.glob("agent-*-handoff.json")), key=_number)
        for name in names:
            if _from_agent(self._folder / name) == manifest.from_agent.id:
                break
        else:
            name = f"agent-{_number(names[-1]) + 1 if names else 1}-handoff.json"
        self.write(Artifact(name=name, form="json", value=manifest.model_dump(mode="json")))
        return name


def _rendered(artifact: Artifact) -> str:
    match artifact.form:
        case "json":
            return to_json(artifact.value, indent=2).decode() + "\n"
        case "yaml":
            return yaml.dump(artifact.value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
        case "text":
            return str(artifact.value)


def _issues_in(path: Path) -> list[dict[str, Any]]:
    """The issues of an earlier report; none where a person left something else in their place."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return []
    return [issue for issue in found if isinstance(issue, dict)] if isinstance(found, list) else []


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _number(name: str) -> int:
    found = HANDOFF_NAME.fullmatch(name)
    return int(found[1]) if found else 0


def _from_agent(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8")).get("from_agent", {}).get("id")
    except (ValueError, AttributeError):
        return None
