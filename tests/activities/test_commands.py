"""The command runner against real processes: limits, groups, daemons, floods, environment, sandbox."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from activities.child_environment import child_environment
from activities.command_limits import MOST_PROCESSES, CommandLimits
from activities.commands import (
    CommandResult,
    ProcessGroup,
    Sandbox,
    end_group,
    find_sandbox,
    run,
)
from activities.locking import exclusive
from activities.programs import Caller, capture, in_a_thread
from tests.end_to_end.bench import commands_below

LIMIT = timedelta(seconds=20)


@pytest.fixture
def environment() -> dict[str, str]:
    return child_environment(os.environ)


def alive(process_id: int) -> bool:
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def wait_for(path: Path) -> int:
    """The number that a command writes to `path`, once it has written it."""
    for _ in range(500):
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path.name} was never written")


async def test_a_command_gives_both_streams_in_order_and_its_exit_code(tmp_path, environment):
    result = await run(
        "echo out; echo err >&2; echo ümlaut; exit 3", cwd=tmp_path, environment=environment, time_limit=LIMIT
    )
    assert (result.exit_code, result.output) == (3, "out\nerr\nümlaut\n")
    assert not result.timed_out
    assert CommandResult.model_validate_json(result.model_dump_json()) == result


async def test_streams_of_a_program_stay_apart_and_bytes_are_kept(tmp_path, environment):
    argv = [sys.executable, "-c", r"import sys; sys.stdout.buffer.write(b'\xff\0'); sys.stderr.write('no')"]
    captured = await capture(argv, cwd=tmp_path, environment=environment, time_limit=LIMIT)
    assert (captured.stdout, captured.stderr, captured.exit_code) == (b"\xff\0", "no", 0)


async def test_stdin_is_empty_unless_given_and_never_blocks(tmp_path, environment):
    empty = await run("cat; echo end", cwd=tmp_path, environment=environment, time_limit=LIMIT)
    assert empty.output == "end\n"
    big = b"x" * 3_000_000
    unread = await run("true", cwd=tmp_path, environment=environment, time_limit=LIMIT, stdin=big)
    assert unread.exit_code == 0
    counted = await run("wc -c", cwd=tmp_path, environment=environment, time_limit=LIMIT, stdin=big)
    assert counted.output.strip() == "3000000"


async def test_there_is_no_terminal(tmp_path, environment):
    result = await run("echo x > /dev/tty", cwd=tmp_path, environment=environment, time_limit=LIMIT)
    assert result.exit_code != 0


async def test_a_flood_is_cut_in_the_middle_with_the_number_of_bytes_left_out(tmp_path, environment):
    whole = tmp_path / "whole"
    result = await run(
        "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last",
        cwd=tmp_path,
        environment=environment,
        time_limit=LIMIT,
        output_limit_bytes=1000,
        transcript=whole,
    )
    assert result.left_out_bytes == 3_000_012 - 1000
    assert result.output.startswith("first\nxxx")
    assert result.output.endswith("xxx\nlast\n")
    assert "[… 2999012 bytes left out here …]" in result.output
    assert len(result.output) < 1100
    assert whole.stat().st_size == 3_000_012


async def test_the_cut_never_splits_a_character(tmp_path, environment):
    result = await run(
        f"{sys.executable} -c \"print('€' * 5000)\"",
        cwd=tmp_path,
        environment=environment,
        time_limit=LIMIT,
        output_limit_bytes=1000,
    )
    assert "\ufffd" not in result.output
    assert "€" in result.output


@pytest.mark.parametrize(("command", "code"), [("no-such-program", 127), (["no-such-program"], 127), (["/"], 126)])
async def test_what_cannot_start_has_the_exit_code_of_shells(tmp_path, environment, command, code):
    result = await run(command, cwd=tmp_path, environment=environment, time_limit=LIMIT)
    assert result.exit_code == code
    assert result.output


async def test_a_missing_folder_is_named(tmp_path, environment):
    with pytest.raises(NotADirectoryError, match="nowhere does not exist"):
        await run("true", cwd=tmp_path / "nowhere", environment=environment, time_limit=LIMIT)


async def test_the_time_limit_ends_the_group_even_when_it_ignores_sigterm(tmp_path, environment):
    started = time.monotonic()
    result = await run(
        "trap '' TERM; echo before; (trap '' TERM; echo $BASHPID > child; sleep 60) & sleep 60; sleep 60",
        cwd=tmp_path,
        environment=environment,
        time_limit=timedelta(seconds=0.5),
    )
    assert result.timed_out
    assert result.exit_code == 128 + signal.SIGKILL
    assert result.output.startswith("before\n")
    assert time.monotonic() - started < 8
    assert not alive(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("escape", ["", "setsid ", "nohup setsid "])
@pytest.mark.parametrize("output", ["", ">/dev/null 2>&1"])
async def test_daemons_are_ended_and_not_waited_for(tmp_path, environment, escape, output):
    started = time.monotonic()
    result = await run(
        f"{escape}sh -c 'echo $$ > daemon; exec sleep 60' {output} & "
        "while ! [ -s daemon ]; do sleep 0.01; done; echo done",
        cwd=tmp_path,
        environment=environment,
        time_limit=LIMIT,
    )
    assert "done\n" in result.output
    assert result.exit_code == 0
    assert not result.timed_out
    assert time.monotonic() - started < 5
    assert not alive(int((tmp_path / "daemon").read_text()))


async def test_what_forks_while_it_is_being_ended_is_ended_too(tmp_path, environment):
    """Each process answers SIGTERM with a new one that ignores it."""
    spawn = (
        "trap '(trap \"\" TERM; echo $BASHPID >> forked; exec sleep 63) & sleep 63' TERM; while :; do sleep 0.05; done"
    )
    limit = timedelta(seconds=0.3)
    result = await run(spawn, cwd=tmp_path, environment=environment, time_limit=limit)
    assert result.timed_out
    forked = (tmp_path / "forked").read_text().split()
    assert forked
    assert not any(alive(int(process_id)) for process_id in forked)


async def test_cancellation_ends_the_group(tmp_path, environment):
    command = "sh -c 'echo $$ > child; exec sleep 60' & sleep 60"
    task = asyncio.create_task(run(command, cwd=tmp_path, environment=environment, time_limit=LIMIT))
    child = await wait_for(tmp_path / "child")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(child)


async def test_a_cancelled_row_of_programs_leaves_nothing(tmp_path, environment):
    """What the first one started ignores the first signal; the second one is not begun."""
    command = ["bash", "-c", "(trap '' TERM; echo $BASHPID > child; exec sleep 300) & wait"]

    def row(caller: Caller) -> None:
        for argv in (command, ["touch", "second"]):
            caller.capture(argv, cwd=tmp_path, environment=environment, time_limit=LIMIT)

    task = asyncio.create_task(in_a_thread(row))
    child = await wait_for(tmp_path / "child")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(child)
    assert not (tmp_path / "second").exists()


async def test_a_program_is_over_when_its_caller_is_however_often_cancelled(tmp_path, environment):
    command = ["bash", "-c", "trap '' TERM; echo $BASHPID > child; while :; do sleep 0.1; done"]
    task = asyncio.create_task(capture(command, cwd=tmp_path, environment=environment, time_limit=LIMIT))
    child = await wait_for(tmp_path / "child")
    for _ in range(3):
        task.cancel()
        await asyncio.wait({task}, timeout=0.2)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(child)


async def test_the_group_is_told_before_the_start_and_after_it(tmp_path, environment):
    told: list[tuple[bool, ProcessGroup]] = []
    await run(
        "touch started; sleep 0.1",
        cwd=tmp_path,
        environment=environment,
        time_limit=LIMIT,
        on_start=lambda group: told.append(((tmp_path / "started").exists(), group)),
    )
    (started, before), (_, after) = told
    assert not started
    assert (before.group_id, before.tag) == (0, after.tag)
    assert after.group_id > 0
    assert after.started_at > 0


async def test_output_is_told_as_it_comes(tmp_path, environment):
    lines: list[int] = []
    script = "for i in 1 2 3; do echo $i; sleep 0.2; done"
    await run(script, cwd=tmp_path, environment=environment, time_limit=LIMIT, on_output=lambda: lines.append(1))
    assert 1 <= len(lines) <= 3


async def test_a_group_that_a_dead_attempt_recorded_is_ended_by_the_next(tmp_path, environment):
    """The first attempt is a real process that is killed, so its command becomes an orphan."""
    script = (
        "import asyncio, sys\nfrom datetime import timedelta\nfrom pathlib import Path\n"
        "from activities.commands import run\n"
        "def note(group):\n    Path('new').write_text(group.model_dump_json())\n    Path('new').replace('group')\n"
        "asyncio.run(run('echo $$ > orphan; sleep 60; sleep 60', cwd=Path.cwd(), environment={'PATH': sys.argv[1]},"
        " time_limit=timedelta(seconds=50), on_start=note))\n"
    )
    root = str(Path(__file__).parents[2])
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, os.environ["PATH"], cwd=tmp_path, env={"PYTHONPATH": root}
    )
    orphan = await wait_for(tmp_path / "orphan")
    first.kill()
    await first.wait()
    assert alive(orphan)
    group = ProcessGroup.model_validate_json((tmp_path / "group").read_text())
    assert await end_group(group) >= 1
    assert not alive(orphan)
    assert await end_group(group) == 0


async def test_a_lock_that_a_child_inherits_outlives_its_killed_parent(tmp_path):
    """So that two gits never work at one place when a worker is killed during a long checkout."""
    script = (
        "import asyncio, sys\nfrom datetime import timedelta\nfrom pathlib import Path\n"
        "from activities.programs import capture\nfrom activities.locking import exclusive\n"
        "async def main():\n    async with exclusive(Path('lock')) as lock:\n"
        "        await capture(['sh', '-c', 'echo $$ > child; exec sleep 1'], cwd=Path.cwd(), keep_open=(lock,),"
        " environment={'PATH': sys.argv[1]}, time_limit=timedelta(seconds=50))\nasyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        os.environ["PATH"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    child = await wait_for(tmp_path / "child")
    parent.kill()
    await parent.wait()
    assert alive(child)
    async with asyncio.timeout(10), exclusive(tmp_path / "lock"):
        assert not alive(child)


async def test_a_reused_process_id_is_not_ended():
    stranger = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    try:
        recorded = ProcessGroup(group_id=stranger.pid, started_at=1_000_000.0, tag="of-another-command")
        assert await end_group(recorded, grace_seconds=0.1) == 0
        assert alive(stranger.pid)
    finally:
        with suppress(ProcessLookupError):
            stranger.kill()
        await stranger.wait()


def test_the_environment_is_an_allow_list_without_credentials_or_our_own_python(tmp_path):
    own = tmp_path / "own"
    base = {
        "PATH": os.pathsep.join([str(own / "bin"), "", "/usr/bin"]),
        "HOME": "/home/someone",
        "LC_ALL": "C.UTF-8",
        "VIRTUAL_ENV": str(own),
        "JAVA_HOME": "/opt/java",
        "HTTPS_PROXY": "http://user:password@proxy:3128",
        "NO_PROXY": "localhost",
    }
    credentials = ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "CONDA_TOKEN", "DB_PASSWORD")
    steering = ("GIT_DIR", "GIT_INDEX_FILE", "PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "BASH_ENV", "NODE_OPTIONS")
    never = (*credentials, *steering, "SSH_AUTH_SOCK", "TEMPORAL_ADDRESS")
    seen = child_environment(base | dict.fromkeys(never, "value"), own_environment=own)
    assert not seen.keys() & set(never)
    assert seen["PATH"] == "/usr/bin"
    assert "VIRTUAL_ENV" not in seen
    assert "HTTPS_PROXY" not in seen
    assert (seen["HOME"], seen["LC_ALL"], seen["JAVA_HOME"]) == ("/home/someone", "C.UTF-8", "/opt/java")
    other = child_environment(base | {"VIRTUAL_ENV": "/srv/theirs"}, own_environment=own)
    assert other["VIRTUAL_ENV"] == "/srv/theirs"


async def test_editors_and_pagers_do_not_wait(tmp_path, environment):
    result = await run(
        "git init -q . && git -c user.name=a -c user.email=a@b commit --allow-empty; git log; man git | head -1; true",
        cwd=tmp_path,
        environment=environment,
        time_limit=LIMIT,
    )
    assert not result.timed_out
    assert result.duration < timedelta(seconds=10)


async def test_the_sandbox_shows_the_workspace_and_hides_the_rest(tmp_path, environment):
    program = await find_sandbox()
    if program is None:
        pytest.skip("bubblewrap does not work here")
    home, workspace, outside = tmp_path / "home", tmp_path / "workspace", tmp_path / "outside"
    for folder in (home / ".ssh", home / ".cargo/bin", workspace, outside):
        folder.mkdir(parents=True)
    (home / ".ssh/id").write_text("private")
    (home / ".cargo/bin/tool").write_text("program")
    environment = environment | {"HOME": str(home), "PATH": f"{home}/.cargo/bin:{environment['PATH']}"}
    sandbox = Sandbox(program, readable=(outside,))
    result = await run(
        f"pwd; touch made; touch {outside}/no; cat {home}/.ssh/id; cat {home}/.cargo/bin/tool; touch /usr/no;"
        " echo temporary > $TMPDIR/x && cat $TMPDIR/x; (setsid sleep 61 &) ; ls /run",
        cwd=workspace,
        environment=environment,
        time_limit=LIMIT,
        sandbox=sandbox,
    )
    assert (workspace / "made").exists()
    assert not (outside / "no").exists()
    assert "private" not in result.output
    assert "program" in result.output
    assert "temporary\n" in result.output
    assert result.output.count("Read-only file system") == 2
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "61"]]


async def test_a_sandboxed_command_is_ended_at_the_time_limit(tmp_path, environment):
    program = await find_sandbox()
    if program is None:
        pytest.skip("bubblewrap does not work here")
    result = await run(
        "trap '' TERM; sleep 62; sleep 62",
        cwd=tmp_path,
        environment=environment,
        time_limit=timedelta(seconds=0.3),
        sandbox=Sandbox(program),
    )
    assert result.timed_out
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "62"]]


BOUNDED_BOMB = "f() { [ $1 -gt 8 ] && sleep 30; f $(($1 + 1)) & f $(($1 + 1)) & wait; }; f 1"
"""Doubles nine times and no further, so that a limit that does not hold costs 512 sleeping processes."""


async def test_processes_are_limited(tmp_path, environment):
    limits = CommandLimits(processes=40)
    result = await run(
        BOUNDED_BOMB, cwd=tmp_path, environment=environment, time_limit=timedelta(seconds=25), limits=limits
    )
    assert (result.too_many_processes, result.timed_out, result.exit_code) == (True, False, 137)
    few = await run(
        "for i in 1 2 3; do sleep 0.4 & done; wait; echo fine",
        cwd=tmp_path,
        environment=environment,
        time_limit=timedelta(seconds=25),
        limits=limits,
    )
    assert (few.too_many_processes, few.output) == (False, "fine\n")


async def test_processes_are_limited_in_the_sandbox_and_none_is_left(tmp_path, environment):
    program = await find_sandbox()
    if program is None:
        pytest.skip("no sandbox here")
    result = await run(
        BOUNDED_BOMB,
        cwd=tmp_path,
        environment=environment,
        time_limit=timedelta(seconds=25),
        limits=CommandLimits(processes=40),
        sandbox=Sandbox(program),
    )
    assert result.too_many_processes
    assert not result.timed_out
    assert commands_below(tmp_path) == []


@pytest.mark.parametrize("sandboxed", [False, True])
async def test_memory_of_a_process_is_limited(tmp_path, environment, sandboxed):
    """By what every host has: nothing has to be installed for it. A command cannot take the limit off again."""
    sandbox = await the_sandbox(sandboxed)
    options = {"cwd": tmp_path, "environment": environment, "time_limit": timedelta(seconds=25), "sandbox": sandbox}
    limits = CommandLimits(memory_bytes=300 * 2**20)
    large = f"ulimit -d unlimited; cd /; setsid -w {sys.executable} -c 'bytearray(400 * 2**20)'"
    refused = await run(large, limits=limits, **options)
    assert refused.exit_code == 1
    assert "MemoryError" in refused.output
    fine = await run(large.replace("400", "20"), limits=limits, **options)
    assert fine.exit_code == 0
    missing = await run(["no-such-program"], limits=limits, **options)
    assert missing.exit_code in {1, 127}


@pytest.mark.parametrize("sandboxed", [False, True])
async def test_whatever_limit_ends_a_command_nothing_of_it_is_left(tmp_path, environment, sandboxed):
    sandbox = await the_sandbox(sandboxed)
    leave = "(setsid sleep 981 &) ; nohup sleep 982 > /dev/null 2>&1 & env -i setsid sleep 983 & sleep 0.3; "
    options = {"cwd": tmp_path, "environment": environment, "sandbox": sandbox}
    ended = await run(f"{leave} sleep 60", time_limit=timedelta(seconds=1), **options)
    assert ended.timed_out
    flood = await run(f"{leave} yes", time_limit=timedelta(seconds=1), output_limit_bytes=1_000, **options)
    assert flood.timed_out
    assert len(flood.output) < 1_200
    many = await run(leave + BOUNDED_BOMB, time_limit=LIMIT, limits=CommandLimits(40, 2**31), **options)
    assert many.too_many_processes
    plain = await run(f"{leave} echo done", time_limit=LIMIT, **options)
    assert plain.exit_code == 0
    left = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in left if line and line[0] == "sleep" and line[-1] in {"981", "982", "983"}]
    assert commands_below(tmp_path) == []


async def the_sandbox(wanted: bool) -> Sandbox | None:
    program = await find_sandbox() if wanted else None
    if wanted and program is None:
        pytest.skip("no sandbox here")
    return Sandbox(program, readable=(Path(sys.prefix), Path(sys.base_prefix))) if program else None


def test_limits_of_the_host_can_be_set():
    assert CommandLimits.of_host({}).processes == MOST_PROCESSES
    memory = CommandLimits.of_host({}).memory_bytes
    assert memory is not None
    assert memory > 2**28
    given = CommandLimits.of_host({"BATON_COMMAND_PROCESSES": "12", "BATON_COMMAND_MEMORY_MB": "64"})
    assert given == CommandLimits(12, 64 * 2**20)
    with pytest.raises(ValueError, match="above zero"):
        CommandLimits.of_host({"BATON_COMMAND_PROCESSES": "-1"})
