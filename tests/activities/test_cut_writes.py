"""A long file that the token limit cuts off: its whole lines are kept, and the successor goes on at that line."""

from pathlib import Path

import pytest
from agents_bench import Agent, Bench, MakeBench, call, differing, does, git, says, texts

from baton.agent import HandOff
from baton.conversation import Ending
from baton.manifest import HandoffReason
from emulator.reply import Reply, Text, ToolUse

LINES = [f"LINE_{number} = {number}  # 'ä' \"{number}\" \\ 日本\n" for number in range(400)]
WHOLE = "".join(LINES)
HANDS_OFF = does(
    call("hand_off", in_progress_item={"file": "src/new.py", "progress": 30, "remaining_work": ["the rest"]})
)
SMALL = 600


async def cut(make_bench: MakeBench, *more: Reply, **arguments: object) -> tuple[Bench, Agent]:
    """An agent whose first response ends in the middle of this `write` or `append`."""
    name = "append" if "at_line" in arguments else "write"
    bench = await make_bench(Reply([Text("I write."), ToolUse(name, arguments)]), *more)
    agent = await bench.start()
    assert (await agent.turn(max_tokens=SMALL)).ending is Ending.CUT
    return bench, agent


async def test_the_beginning_of_a_new_file_is_kept_and_continued(make_bench: MakeBench) -> None:
    bench, agent = await cut(make_bench, HANDS_OFF, says("unused"), file_path="src/new.py", content=WHOLE)
    on_disk = (agent.workspace / "src/new.py").read_text()
    kept = on_disk.count("\n")
    assert on_disk == "".join(LINES[:kept])
    assert kept > 10
    assert agent.commits() == ["executor-2-converter · turn 1"]
    assert git(agent.workspace, "show", f"{agent.workspace.name}:src/new.py") == on_disk.rstrip()
    await agent.go_on()
    assert f"src/new.py now ends at line {kept}" in texts(bench.sent()[-1]["content"])
    assert agent.move() == HandOff(HandoffReason.OUTPUT_LIMIT)
    manifest = (await agent.close()).manifest
    item = manifest.in_progress_item
    assert item is not None
    assert (item.file, item.line_number, item.progress) == ("src/new.py", kept, 30)
    assert item.remaining_work == ("the rest", f"go on with append at_line {kept}; do not start again")
    assert LINES[kept].startswith(item.partial_state or "?")
    assert bench.statuses() == [200, 200]


async def test_a_chain_of_agents_writes_one_long_file(make_bench: MakeBench) -> None:
    """Each agent is cut again; the file is what one unlimited agent would have written."""
    hands_off = does(call("hand_off"))
    kept, replies = 0, []

    def goes_on(request: object) -> Reply:
        rest = "".join(LINES[kept:])
        return does(call("append", file_path="src/new.py", content=rest, at_line=kept))

    for _ in range(20):
        replies += [goes_on, hands_off]
    bench = await make_bench(does(call("write", file_path="src/new.py", content=WHOLE)), hands_off, *replies)
    agent = await bench.start(bench.assignment(successors_left=99))
    while (await agent.turn(max_tokens=1_500)).ending is Ending.CUT:
        await agent.go_on()
        agent = await agent.succeed()
        manifest = agent.assignment.manifest
        assert manifest is not None
        assert manifest.in_progress_item is not None
        before, kept = kept, manifest.in_progress_item.line_number or 0
        assert kept > before
    assert agent.assignment.generation > 2
    assert (agent.workspace / "src/new.py").read_text() == WHOLE
    assert set(bench.statuses()) == {200}


async def test_a_cut_append_is_continued_in_the_same_way(make_bench: MakeBench) -> None:
    bench, agent = await cut(make_bench, HANDS_OFF, file_path="src/a.py", at_line=1, content=WHOLE)
    text = (agent.workspace / "src/a.py").read_text()
    kept = text.count("\n")
    assert text == "A = 1\n" + "".join(LINES[: kept - 1])
    await agent.go_on()
    item = (await agent.close()).manifest.in_progress_item
    assert item is not None
    assert (item.file, item.line_number, item.progress) == ("src/a.py", kept, None)
    assert f"src/a.py now ends at line {kept}" in texts(bench.sent()[-1]["content"])


async def test_a_cut_rewrite_leaves_the_file_alone(make_bench: MakeBench) -> None:
    bench, agent = await cut(make_bench, does(call("hand_off")), file_path="src/a.py", content=WHOLE)
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\n"
    assert agent.commits() == []
    await agent.go_on()
    assert "Change it with edit, in small pieces" in texts(bench.sent()[-1]["content"])
    item = (await agent.close()).manifest.in_progress_item
    assert item is not None
    assert (item.file, item.partial_state) == ("src/a.py", None)
    assert "change the file with edit, in small pieces; do not write it as a whole again" in item.remaining_work


async def test_the_successor_is_told_where_to_go_on(make_bench: MakeBench) -> None:
    bench, agent = await cut(make_bench, does(call("hand_off")), says("Hm."), file_path="src/new.py", content=WHOLE)
    kept = (agent.workspace / "src/new.py").read_text().count("\n")
    await agent.go_on()
    await (await agent.succeed()).go_on()
    assert f"go on with append at_line {kept}" in texts(bench.sent()[0]["content"])


async def test_an_append_that_names_its_line_last_goes_to_the_end_of_the_file(make_bench: MakeBench) -> None:
    _, agent = await cut(make_bench, does(call("hand_off")), file_path="src/a.py", content=WHOLE, at_line=1)
    text = (agent.workspace / "src/a.py").read_text()
    assert text == "A = 1\n" + "".join(LINES[: text.count("\n") - 1])
    await agent.go_on()
    item = (await agent.close()).manifest.in_progress_item
    assert item is not None
    assert item.line_number == text.count("\n") > 10


@pytest.mark.parametrize("missing", [0, 1])
async def test_an_append_to_a_missing_file(make_bench: MakeBench, missing: int) -> None:
    _, agent = await cut(make_bench, does(call("hand_off")), file_path="src/new.py", at_line=missing, content=WHOLE)
    kept = (agent.workspace / "src/new.py").read_text().count("\n")
    await agent.go_on()
    item = (await agent.close()).manifest.in_progress_item
    assert item is not None
    assert item.line_number == kept


@pytest.mark.parametrize(("file_path", "at_line"), [("src/new.py", 7), ("src/a.py", 5)])
async def test_an_append_at_the_wrong_line_is_not_kept(make_bench: MakeBench, file_path: str, at_line: int) -> None:
    """Its beginning would stand in a file that lacks what comes before."""
    bench, agent = await cut(make_bench, does(call("hand_off")), file_path=file_path, at_line=at_line, content=WHOLE)
    assert not (agent.workspace / "src/new.py").exists()
    assert (agent.workspace / "src/a.py").read_text() == "A = 1\n"
    await agent.go_on()
    assert "nothing was added" in texts(bench.sent()[-1]["content"])
    assert (await agent.close()).manifest.in_progress_item is None


FORBIDDEN = [
    "docs/guide.md",
    "../outside.py",
    "/tmp/baton-outside.py",
    "/etc/passwd",
    "src/../../x.py",
    ".git/x",
    "src",
]


async def test_nothing_is_kept_where_the_step_may_not_write(make_bench: MakeBench) -> None:
    writes = [does(call("write", file_path=path, content=WHOLE)) for path in FORBIDDEN]
    bench = await make_bench(*writes, does(call("hand_off")))
    agent = await bench.start()
    for _ in FORBIDDEN:
        await agent.turn(max_tokens=SMALL)
    assert differing(agent.workspace) == ""
    assert not Path("/tmp/baton-outside.py").exists()
    assert [path.name for path in agent.workspace.parent.iterdir()] == ["step-2"]
    assert (agent.workspace / ".git").is_file()
    assert agent.commits() == []
    await agent.turn()
    told = texts([block for message in bench.sent() if message["role"] == "user" for block in message["content"]])
    assert told.count("could not be kept") == len(FORBIDDEN)
    assert (await agent.close()).manifest.in_progress_item is None


@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_cut_at_every_place_of_an_escape(make_bench: MakeBench, end: str) -> None:
    """Escapes, quotes, surrogate pairs and line ends are cut anywhere: only whole lines come through, byte for byte."""
    written = {"\n": "\\n", "\r\n": "\\r\\n"}[end]
    content = "".join(rf"é\"\u00e9 \ud83d\ude00 \\ 日本 {number}{written}" for number in range(60))
    expected = "".join(f'é"é 😀 \\ 日本 {number}{end}' for number in range(60)).encode()
    names = [f"src/new_{number}.py" for number in range(9)]
    raws = [f'{{"file_path": "{name}", "content": "{content}"}}' for name in names]
    bench = await make_bench(*[Reply([ToolUse("write", raw)]) for raw in raws])
    agent = await bench.start()
    for number, name in enumerate(names):
        assert (await agent.turn(max_tokens=100 + number)).ending is Ending.CUT
        on_disk = (agent.workspace / name).read_bytes()
        assert expected.startswith(on_disk)
        assert on_disk.endswith(end.encode())
        part = bench.folder.conversations.load(agent.state.head).facts.saved_part
        assert part is not None
        assert (part.file, part.line_number) == (name, on_disk.count(b"\n"))
        assert expected.startswith(on_disk + part.rest.encode())


async def test_cut_in_the_path_or_in_the_first_line(make_bench: MakeBench) -> None:
    """Half a path names another file, so nothing is kept of it; of a first line only the manifest knows."""
    raw = '{"file_path": "src/' + "very-long-name-" * 200
    bench = await make_bench(Reply([ToolUse("write", raw)]), does(call("hand_off")))
    agent = await bench.start()
    await agent.turn(max_tokens=SMALL)
    assert differing(agent.workspace) == ""
    await agent.go_on()
    assert (await agent.close()).manifest.in_progress_item is None


async def test_one_endless_line_stays_in_the_manifest(make_bench: MakeBench) -> None:
    _, agent = await cut(make_bench, does(call("hand_off")), file_path="src/min.py", content="x=1;" * 4_000)
    assert not (agent.workspace / "src/min.py").exists()
    await agent.go_on()
    item = (await agent.close()).manifest.in_progress_item
    assert item is not None
    assert (item.file, item.line_number) == ("src/min.py", 0)
    assert (item.partial_state or "").startswith("x=1;x=1;")
    assert len(item.partial_state or "") <= 2_000


async def test_a_role_that_only_reads_saves_nothing(make_bench: MakeBench) -> None:
    bench = await make_bench(does(call("write", file_path="new.py", content=WHOLE)), says("Hm."))
    planner = bench.assignment(role="planner", name="planner", workspace="plan", step=None, items=(), survey="s")
    agent = await bench.start(planner)
    await agent.turn(max_tokens=SMALL)
    assert not (agent.workspace / "new.py").exists()
    await agent.go_on()
    assert bench.statuses() == [200, 200]
