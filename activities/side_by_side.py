"""Two things that are done at the same time, of which neither goes on when the other cannot be done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


async def side_by_side(first: Coroutine[Any, Any, First], second: Coroutine[Any, Any, Second]) -> tuple[First, Second]:
    """What both give. When one fails the other is cancelled and waited for, and the error is the first one's own; what
    runs in a thread goes on to its end unseen."""
    try:
        async with asyncio.TaskGroup() as both:
            one, other = both.create_task(first), both.create_task(second)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return one.result(), other.result()
