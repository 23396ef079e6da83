"""Checks of what a person gave, before anything is started, so that bad input costs a moment and leaves nothing.

The worker checks again: it may run on another host, and tasks are started by other clients too. Every check raises
`Refused`.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baton.environment import MODEL_CREDENTIALS
from baton.names import secret_fault, task_text_fault
from baton.sources import CHECKOUT_QUESTION, checkout_fault, has_credentials, is_url
from cli.exits import Refused

if TYPE_CHECKING:
    from baton.plan import PlanDraft
    from baton.settings import Layer, Settings

_GIT_LIMIT_SECONDS = 60


@dataclass(frozen=True)
class Source:
    """The repository of a task: what the workflow gets, and the folder and base commit where it is a local one."""

    repository: str
    top_level: Path | None = None
    base_commit: str | None = None


def check_task(words: Sequence[str], standard_input: str | None) -> str:
    """The task: the words themselves, the content of `@file`, or for `-` what standard input held."""
    given = " ".join(words)
    if given == "-":
        given = standard_input or ""
    elif given.startswith("@") and len(words) == 1:
        try:
            given = Path(given[1:]).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"the task cannot be read from {given[1:]}: {error}") from error
    if not given.strip():
        raise Refused('the task is empty: say what to do, for example orchestrate "Modernise the string formatting"')
    if (fault := task_text_fault(given)) is not None:
        raise Refused(fault)
    return given.strip()


def check_repository(given: str, base: str | None) -> Source:
    """The source named by a path (any folder of a checkout) or a URL."""
    if is_url(given):
        if has_credentials(given):
            raise Refused(
                "the URL of the repository holds a credential, which would be stored with the task: leave it out "
                "and let git find it (git help credentials)"
            )
        return Source(given)
    top_level = check_folder(given)
    given = str(Path(given).expanduser().absolute())
    commit = git(top_level, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base or 'HEAD'}^{{commit}}")
    if commit.returncode != 0 and base:
        raise Refused(f"{given}: the base {base!r} names no commit here; see git branch --all, git tag")
    if commit.returncode != 0:
        raise Refused(f"{given} has no commits: commit what the task should start from (git commit)")
    if git(top_level, "show-ref", "--verify", "--quiet", "refs/heads/baton").returncode == 0:
        raise Refused(
            f"{given}: a branch named 'baton' exists and blocks the result branch baton/<task_id>: "
            "rename it (git branch -m baton another-name)"
        )
    return Source(str(top_level), top_level, commit.stdout.decode().strip())


def check_folder(given: str) -> Path:
    """The top folder of the checkout around a path."""
    folder = Path(given).expanduser()
    given = str(folder.absolute())
    if not folder.is_dir():
        raise Refused(f"{given}: there is no such folder; name a git repository with --repo")
    return _top_level(folder, given)


def check_plan(path: Path, source: Source) -> "PlanDraft":
    """The plan in a YAML or JSON file, with every fault of it named."""
    from pydantic import ValidationError

    from baton.expansion import expand
    from baton.given_secrets import plan_texts
    from baton.plan import PlanDraft, PlanFaults

    try:
        draft = PlanDraft.model_validate(_document(path))
    except ValidationError as error:
        faults = [f"- {_place(fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        raise Refused(f"{path}: the plan has faults:\n" + "\n".join(faults)) from error
    for where, text in plan_texts(draft, f"--plan {path}"):
        if (fault := secret_fault(where, text)) is not None:
            raise Refused(fault)
    if source.top_level is None or source.base_commit is None:
        return draft
    listed = git(source.top_level, "ls-tree", "-r", "-z", "--name-only", source.base_commit).stdout
    files = frozenset(os.fsdecode(name) for name in listed.split(b"\0") if name)
    try:
        expand(draft, draft.task_id or "plan", files)
    except PlanFaults as plan_faults:
        raise Refused(f"{path}: the plan has faults:\n{plan_faults}") from plan_faults
    return draft


def check_settings(home: Path, top_level: Path | None, command_line: Mapping[str, Any]) -> "list[Layer]":
    """The layers of settings files and options together, as the worker will resolve them."""
    from baton.given_secrets import setting_texts
    from baton.settings import Layer

    for where, text in setting_texts(command_line):
        if (fault := secret_fault(where, text)) is not None:
            raise Refused(fault)
    layers = [*read_layers(home, top_level), Layer(source="the command line", orchestration=dict(command_line))]
    settings = resolved(layers)
    if not settings.enabled:
        named = next(layer.source for layer in reversed(layers) if "enabled" in layer.orchestration)
        raise Refused(f"orchestration is switched off (enabled: false in {named})")
    return layers


def read_layers(home: Path, top_level: Path | None) -> "list[Layer]":
    """The layers of the settings files that are there, in rising precedence."""
    from baton.layout import settings_files
    from baton.settings import Layer, SettingsFaults, parse_layer

    layers: list[Layer] = []
    faults: list[str] = []
    user, *project = settings_files(home, top_level)
    for path in (user, *project):
        try:
            text = path.read_text(encoding="utf-8") if path.is_file() else None
            layers += [parse_layer(str(path), text, project=path in project)] if text is not None else []
        except SettingsFaults as found:
            faults += found.faults
        except (OSError, UnicodeDecodeError) as error:
            faults.append(f"{path}: the file cannot be read: {error}")
    if faults:
        raise Refused("\n".join(faults))
    return layers


def resolved(layers: "Sequence[Layer]") -> "Settings":
    """The settings of all layers together."""
    from baton.settings import SettingsFaults, resolve

    try:
        return resolve(layers)
    except SettingsFaults as faults:
        raise Refused(str(faults)) from faults


def check_credentials(environment: Mapping[str, str], saved: Path) -> None:
    """A key or another base URL is at hand, here or in the file that the running service uses."""
    if workers_elsewhere(environment):
        return
    if not any(environment.get(name) for name in MODEL_CREDENTIALS) and not saved.is_file():
        raise Refused(
            "no API key: set ANTHROPIC_API_KEY (export ANTHROPIC_API_KEY=…), or ANTHROPIC_BASE_URL for a server of "
            "your own. To see a whole run without a key: orchestrate demo"
        )


def workers_elsewhere(environment: Mapping[str, str]) -> bool:
    """Whether tasks are done by workers on other hosts: `BATON_LOCAL_WORKER=off`, for a configured Temporal only."""
    chosen = environment.get("BATON_LOCAL_WORKER", "on")
    if chosen not in ("on", "off"):
        raise Refused(f"BATON_LOCAL_WORKER is {chosen!r}: only 'on' and 'off' have a meaning")
    if chosen == "on":
        return False
    from cli.connection import configured

    return configured() is not None


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """A reading git command that takes no locks and is not led elsewhere by inherited `GIT_*`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=environment | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_LIMIT_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise Refused("git is missing: install it first (Debian: apt-get install git)") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"git did not answer within {_GIT_LIMIT_SECONDS} s in {folder}") from error


def _top_level(folder: Path, given: str) -> Path:
    answer = git(folder, *CHECKOUT_QUESTION)
    errors = answer.stderr.decode(errors="replace")
    if (fault := checkout_fault(given, answer.returncode, answer.stdout, errors)) is not None:
        raise Refused(fault)
    # One line end belongs to git, all others to the path.
    return Path(os.fsdecode(git(folder, "rev-parse", "--show-toplevel").stdout[:-1]))


def _document(path: Path) -> Any:
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"the plan cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise Refused(f"{path} is neither YAML nor JSON: {error}") from error
    if not isinstance(document, dict):
        raise Refused(f"{path}: a plan is an object with the key 'plan', a list of steps")
    return document


def _place(parts: Sequence[str | int]) -> str:
    place = ""
    for part in parts:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    return place or "the file"
