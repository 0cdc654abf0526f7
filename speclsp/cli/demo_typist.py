"""Types a scene into a language server, and takes the ghost text that is what was meant."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from speclsp.cli.demo_scenes import Scene
from speclsp.lsp.client import InlineItem, ServerProcess

LEAST_CHARS_TAKEN = 3
"""Shorter ghost text is typed faster than it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is on the screen: a buffer with the cursor at its end, and the ghost text there."""

    path: str
    text: str
    start: int
    """Where the scene's own text begins in ``text``; the cursor is at its end."""
    ghost: str = ""
    accepted: tuple[tuple[int, int], ...] = ()
    """Ranges of ``text`` that were ghost text."""
    taking: bool = False
    """Whether the ghost text is about to be accepted."""


@dataclass(slots=True)
class Tally:
    """What typing cost so far."""

    n_keys: int = 0
    n_accepted: int = 0
    n_chars_accepted: int = 0
    n_requests: int = 0
    n_shown: int = 0
    ms_requests: list[float] = field(default_factory=list)


class Typist:
    """Writes scenes keystroke by keystroke."""

    def __init__(
        self,
        server: ServerProcess,
        folder: Path,
        tally: Tally,
        show: Callable[[Frame], Awaitable[None]],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._server = server
        self._folder = folder
        self._tally = tally
        self._show = show
        self._clock = clock

    async def play(self, scene: Scene) -> Frame:
        """Type a scene at the end of its file; returns the last frame."""
        path = self._folder / scene.path
        before = path.read_text(encoding="utf-8")
        self._server.open(path, before)
        accepted: list[tuple[int, int]] = []
        n_written = 0
        while n_written < len(scene.meant):
            text = before + scene.meant[:n_written]
            item = await self._ask(text)
            ghost = _ghost_text(item, text)
            takes = _is_meant(ghost, scene.meant[n_written:])
            await self._show(
                Frame(
                    path=scene.path,
                    text=text,
                    start=len(before),
                    ghost=ghost,
                    accepted=tuple(accepted),
                    taking=takes,
                )
            )
            if item is not None and takes:
                accepted.append((len(text), len(text) + len(ghost)))
                n_written += len(ghost)
                self._tally.n_accepted += 1
                self._tally.n_chars_accepted += len(ghost)
                self._server.change(before + scene.meant[:n_written])
                await self._server.accept(item)
            else:
                n_written += 1
                self._tally.n_keys += 1
                self._server.change(before + scene.meant[:n_written])
        text = before + scene.meant
        path.write_text(text, encoding="utf-8")
        self._server.save()
        last = Frame(path=scene.path, text=text, start=len(before), accepted=tuple(accepted))
        await self._show(last)
        return last

    async def _ask(self, text: str) -> InlineItem | None:
        line = text.count("\n")
        character = len(text) - (text.rfind("\n") + 1)
        started = self._clock()
        items = await self._server.inline_completion(line, character)
        self._tally.ms_requests.append(1000 * (self._clock() - started))
        self._tally.n_requests += 1
        if not items:
            return None
        self._tally.n_shown += 1
        return items[0]


def _ghost_text(item: InlineItem | None, text: str) -> str:
    """Return what an item adds at the end of ``text``: it may begin with the line's own text."""
    if item is None:
        return ""
    character = len(text) - (text.rfind("\n") + 1)
    n_typed = character - item.start_character
    if n_typed and not item.insert_text.startswith(text[-n_typed:]):
        return ""
    return item.insert_text[n_typed:]


def _is_meant(ghost: str, rest: str) -> bool:
    return len(ghost.strip()) >= LEAST_CHARS_TAKEN and rest.startswith(ghost)
