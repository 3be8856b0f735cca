"""Blocking work beside the event loop, which a cancelled run does not leave half done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Let a thread work, so that a signal reaches the run meanwhile; what it returns.

    A run that is cancelled meanwhile ends when the work is done.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise
