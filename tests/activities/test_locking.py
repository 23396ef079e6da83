"""Locks whose file comes and goes with what they guard."""

import asyncio
from pathlib import Path

from activities.locking import exclusive_file


async def test_whoever_waited_for_a_lock_that_was_removed_shares_the_new_one(tmp_path: Path) -> None:
    lock, inside, most = tmp_path / "task.lock", 0, 0

    async def work(*, removes: bool) -> None:
        nonlocal inside, most
        async with exclusive_file(lock):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.05)
            inside -= 1
            if removes:
                lock.unlink()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for number in range(9):
            group.create_task(work(removes=number % 3 == 0))
            await asyncio.sleep(0.02)
    assert most == 1
