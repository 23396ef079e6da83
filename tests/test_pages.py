"""The pages say what is there: settings, manifests, commands and options, pictures and links."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from baton.manifest import Manifest
from baton.pricing import Price
from baton.settings import GateSetting, Settings, parse_layer, resolve
from cli.application import build
from tests.pages import CONSOLE, PAGES, ROOT, blocks, mentioned

MOST_BYTES = 200_000


def rows(model: Any = Settings, prefix: str = "") -> Iterator[str]:
    """The table of settings, a row for each key."""
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        if name in {"models", "limits"}:
            yield from rows(field.annotation, f"{key}.")
        else:
            yield f"| `{key}` | {shown_default(field)} | {field.description} |"
            yield from rows(GateSetting, "gates[].") if name == "gates" else ()


def shown_default(field: Any) -> str:
    return "required" if field.is_required() else f"`{json.dumps(field.get_default(call_default_factory=True))}`"


def test_every_setting_stands_on_its_page() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    told = [line for line in page.splitlines() if re.match(r"\| `\w+[.\w\[\]]*` \|", line)]
    assert told == list(rows()), "the table of docs/settings.md must be:\n" + "\n".join(rows())
    prices = [field.alias or name for name, field in Price.model_fields.items()]
    assert [key for key in prices if f"`{key}`" not in page] == ["up_to_prompt_tokens"]


@pytest.mark.parametrize("room", ["workflows", "activities", "baton", "cli"])
def test_every_module_has_its_place_in_the_list_of_rooms(room: str) -> None:
    rooms = (ROOT / "docs/design.md").read_text(encoding="utf-8").partition("## Rooms")[2].partition("\n## ")[0]
    named = set(re.findall(r"\w+", rooms))
    assert {path.stem for path in (ROOT / room).glob("*.py")} - {"__init__"} <= named


def test_the_shown_settings_are_valid() -> None:
    shown = [(page, block.text) for page in PAGES for block in blocks(page) if '"orchestration"' in block.text]
    objects = [(page, text) for page, block in shown if not block.startswith("$") for text in _json_objects(block)]
    assert {page.name for page, _ in objects} >= {"settings.md", "usage.md"}
    for page, text in objects:
        resolve([parse_layer(page.name, text)])


def _json_objects(text: str) -> list[str]:
    """The objects of a block, one behind the other."""
    found, decoder = [], json.JSONDecoder()
    while text.strip():
        text = text.lstrip()
        _, end = decoder.raw_decode(text)
        found.append(text[:end])
        text = text[end:]
    return found


def test_the_shown_manifest_is_one() -> None:
    [text] = [block.text for block in blocks(ROOT / "docs/handoffs.md") if block.language == "json"]
    manifest = Manifest.model_validate_json(text)
    assert set(json.loads(text)) == set(Manifest.model_fields)
    assert (manifest.chain[-1].to, manifest.verification.checked) == (manifest.to_agent and manifest.to_agent.id, True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    program: Any = typer.main.get_command(build())
    commands = program.commands
    for text in mentioned(page):
        words = shlex.split(text.partition(" && ")[0], comments=True)
        name = words[1] if words[1] in commands else "run"
        known = {
            option for parameter in commands[name].params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        known |= {"--help", "-h", "--version"}
        given = {word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)}
        assert given <= known, f"{page.name}: {text}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_stand_in_blocks_that_are_run(page: Path) -> None:
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        assert (block.language == CONSOLE) == bool(block.commands), where
        if block.language != CONSOLE:
            assert not re.search(r"^(orchestrate|temporal|docker|pip|make) ", block.text, re.MULTILINE), where
        assert block.reason is None or len(block.reason) > 15, f"{where}: say why it is not run"


def test_few_commands_are_not_run() -> None:
    shown = [(block.reason, command) for page in PAGES for block in blocks(page) for command in block.commands]
    left_out = [command for reason, command in shown if reason is not None]
    assert len(shown) > 60
    assert len(left_out) < len(shown) / 4, left_out


def test_every_command_is_shown_and_run_once() -> None:
    program: Any = typer.main.get_command(build())
    run = [command for page in PAGES for block in blocks(page) if block.reason is None for command in block.commands]
    shown = {match[1] for command in run for match in re.finditer(r"\borchestrate ([a-z]+)", command)}
    assert set(program.commands) - shown == {"demo"}  # tests/end_to_end/test_demo.py runs it


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere_and_pictures_are_small(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "report-with-conflicts" in page.name:
            continue  # a report as written: its links are beside it, among the artifacts
        place = page.parent / target
        assert place.exists(), f"{page.name}: {target}"
        assert place.suffix != ".png" or place.stat().st_size < MOST_BYTES, f"{page.name}: {target}"
