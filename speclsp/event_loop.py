"""Calls to an event loop from other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress


def post(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> None:
    """Let a loop call something; any thread may, and nothing happens once the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)
