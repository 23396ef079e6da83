"""`docker-compose.yml` by the Compose specification and by what Baton needs; the Dockerfile by its instructions."""

import re
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml

ROOT = Path(__file__).parent.parent
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
PINNED = re.compile(r"[\w./-]+:\d+\.\d+[\w.-]*")
ONCE = {"schema", "namespace"}
"""Services that do their work and end."""


def example() -> dict[str, str]:
    """The variables of `.env.example`, with something where a person must fill in."""
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {name: value or "given" for name, value in given.items()}


def interpolated(text: str, variables: dict[str, str]) -> str:
    """As `docker compose` does it: `${NAME:-default}`, `${NAME:?message}`, `$$` for a dollar."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        name, rule, argument = found["name"], found["rule"], found["argument"]
        if variables.get(name):
            return variables[name]
        if rule == ":?":
            raise LookupError(f"{name}: {argument}")
        return argument or ""

    return re.sub(r"\$\$|\$\{(?P<name>\w+)(?:(?P<rule>:[-?])(?P<argument>[^}]*))?\}", value, text)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    document = yaml.safe_load(interpolated(COMPOSE, example()))
    compose_spec.PyCompose.from_yaml(yaml.safe_dump(document))
    return dict(document["services"])


def test_the_specification_is_really_asked() -> None:
    broken = yaml.safe_load(interpolated(COMPOSE, example()))
    broken["services"]["ui"]["restart"] = "sometimes"
    with pytest.raises(ValueError, match="sometimes"):
        compose_spec.PyCompose.from_yaml(yaml.safe_dump(broken))


def test_every_variable_is_in_the_example_and_what_must_be_given_is_asked_for(services: dict[str, Any]) -> None:
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", COMPOSE))
    assert used == set(example())
    for name in ("ANTHROPIC_API_KEY", "POSTGRES_PASSWORD"):
        with pytest.raises(LookupError, match=name):
            interpolated(COMPOSE, example() | {name: ""})
    # Nothing listens beyond this host by default.
    defaults = yaml.safe_load(interpolated(COMPOSE, {"ANTHROPIC_API_KEY": "k", "POSTGRES_PASSWORD": "p"}))
    published = [port for service in defaults["services"].values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_what_runs_comes_back_and_can_be_seen_to_work(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert PINNED.fullmatch(service["image"]), name
        assert service["restart"] == ("on-failure" if name in ONCE else "unless-stopped"), name
    assert all("healthcheck" in services[name] for name in ("postgresql", "temporal"))


def test_what_is_waited_for_can_be_waited_for(services: dict[str, Any]) -> None:
    for service in services.values():
        for name, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in services[name], name
            else:
                assert name in ONCE


def test_workers_share_payloads_and_nothing_else(services: dict[str, Any]) -> None:
    workers = {name: service for name, service in services.items() if name.startswith("worker")}
    assert len(workers) >= 2
    mounts = [dict(mount.split(":")[:2][::-1] for mount in worker["volumes"]) for worker in workers.values()]
    assert len({mount["/state"] for mount in mounts}) == len(workers)
    assert {mount["/state/payloads"] for mount in mounts} == {"payloads"}
    declared = set(yaml.safe_load(interpolated(COMPOSE, example()))["volumes"])
    used = {mount.split(":")[0] for service in services.values() for mount in service.get("volumes", ())}
    assert used == declared


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions in order, continuation lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def test_the_image_is_pinned_small_and_not_of_root() -> None:
    found = instructions()
    assert found[0][0] == "FROM"
    assert PINNED.fullmatch(found[0][1])
    kinds = [kind for kind, _ in found]
    assert set(kinds) <= {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "VOLUME", "HEALTHCHECK", "CMD"}
    assert dict(found)["USER"] not in ("root", "0")
    assert kinds.index("USER") > max(number for number, kind in enumerate(kinds) if kind == "RUN")
    installs = [argument for kind, argument in found if kind == "RUN" and "apt-get install" in argument]
    assert all("--no-install-recommends" in run and "rm -rf /var/lib/apt/lists" in run for run in installs)
    assert all(word in installs[0] for word in ("git", "bubblewrap"))


def test_the_image_gets_every_file_it_copies_and_every_room_is_copied() -> None:
    copied = {name for kind, argument in instructions() if kind == "COPY" for name in argument.split()[:-1]}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    packages = re.search(r"^packages = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert packages
    assert {name.split(".")[0] for name in re.findall(r'"([\w.]+)"', packages[1])} <= copied
