"""The code that the demo types, and the typist, who accepts ghost text that matches it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from speclsp.lsp.client import InlineItem, ServerProcess
from speclsp.request import Ranges


@dataclass(frozen=True, slots=True)
class Scene:
    """One piece of code to write.

    The typist accepts the model's ghost text where it matches ``meant``, and types on elsewhere.
    """

    path: str
    after: str
    """Text of the file after which the typing begins; empty for the end of the file."""
    meant: str

    def split(self, text: str) -> tuple[str, str]:
        """Return the file's text before and after the place to type at."""
        n_before = text.index(self.after) + len(self.after) if self.after else len(text)
        return text[:n_before], text[n_before:]


SCENES: tuple[Scene, ...] = (
    Scene(
        "shop/models.py",
        """            email=data["email"],
            active=data["active"],
        )
""",
        '''

@dataclass
class Supplier:
    """Somebody who delivers."""

    id: int
    name: str
    email: str
    active: bool = True

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "email": self.email,
            "active": self.active,
        }
''',
    ),
    Scene("shop/storage.py", "import Customer, Product", ", Supplier"),
    Scene(
        "shop/storage.py",
        "",
        '''

def save_suppliers(path: Path, suppliers: list[Supplier]) -> None:
    """Write suppliers to a JSON file."""
    data = [supplier.to_dict() for supplier in suppliers]
    path.write_text(json.dumps(data, indent=2), encoding="utf-8")
''',
    ),
)


LEAST_CHARS_TAKEN = 3
"""Shorter ghost text is faster typed than read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The content of the screen: a file's text before and after the cursor, and ghost text."""

    path: str
    before: str
    after: str
    start: int
    """Where the scene's own text begins in ``before``."""
    ghost: str = ""
    drafted: Ranges = ()
    """Ranges of the ghost text that accepted draft tokens gave."""
    accepted: tuple[tuple[int, int], ...] = ()
    """Ranges of ``before`` that were ghost text."""
    n_taking: int = 0
    """Characters of the ghost text that are about to be accepted: all, or its first lines."""


@dataclass(slots=True)
class Tally:
    """Counts of the typing so far."""

    n_keys: int = 0
    n_accepted: int = 0
    n_chars_accepted: int = 0
    n_requests: int = 0
    n_shown: int = 0
    ms_last_answer: float = 0.0


class Typist:
    """Types scenes key by key, and requests ghost text after each key.

    ``drafted`` returns, by a completion's id, the ranges of its text that drafts gave.
    """

    def __init__(
        self,
        server: ServerProcess,
        folder: Path,
        tally: Tally,
        show: Callable[[Frame], Awaitable[None]],
        drafted: Callable[[str], Ranges],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._server = server
        self._folder = folder
        self._tally = tally
        self._show = show
        self._drafted = drafted
        self._clock = clock

    async def play(self, scene: Scene) -> Frame:
        """Type a scene into its file, save the file, and return the last frame."""
        path = self._folder / scene.path
        text = path.read_text(encoding="utf-8")
        self._server.open(path, text)
        head, tail = scene.split(text)
        accepted: list[tuple[int, int]] = []
        n_written = 0
        while n_written < len(scene.meant):
            before = head + scene.meant[:n_written]
            item = await self._ask(before)
            ghost = _ghost_text(item, before)
            n_taken = _n_meant(ghost, scene.meant[n_written:])
            await self._show(
                Frame(
                    path=scene.path,
                    before=before,
                    after=tail,
                    start=len(head),
                    ghost=ghost,
                    drafted=self._drafted(item.arguments[0]) if item and ghost else (),
                    accepted=tuple(accepted),
                    n_taking=n_taken,
                )
            )
            if item is not None and n_taken:
                accepted.append((len(before), len(before) + n_taken))
                n_written += n_taken
                self._server.change(head + scene.meant[:n_written] + tail)
                await self._accept(item, len(ghost) - n_taken)
                self._tally.n_accepted += 1
                self._tally.n_chars_accepted += n_taken
            else:
                n_written += 1
                self._server.change(head + scene.meant[:n_written] + tail)
                self._tally.n_keys += 1
        path.write_text(head + scene.meant + tail, encoding="utf-8")
        self._server.save()
        return Frame(
            path=scene.path,
            before=head + scene.meant,
            after=tail,
            start=len(head),
            accepted=tuple(accepted),
        )

    async def _ask(self, before: str) -> InlineItem | None:
        line = before.count("\n")
        character = len(before) - (before.rfind("\n") + 1)
        started = self._clock()
        items = await self._server.inline_completion(line, character)
        self._tally.ms_last_answer = 1000 * (self._clock() - started)
        self._tally.n_requests += 1
        self._tally.n_shown += bool(items)
        return items[0] if items else None

    async def _accept(self, item: InlineItem, n_left: int) -> None:
        if n_left:
            self._server.accept_partly(item, len(item.insert_text) - n_left)
        else:
            await self._server.accept(item)


def _ghost_text(item: InlineItem | None, before: str) -> str:
    """Return what an item adds after ``before``, empty if it replaces text after the cursor.

    An item may begin with the text before the cursor on its line.
    """
    character = len(before) - (before.rfind("\n") + 1)
    if item is None or item.end_character != character:
        return ""
    n_typed = character - item.start_character
    if n_typed and not item.insert_text.startswith(before[-n_typed:]):
        return ""
    return item.insert_text[n_typed:]


def _n_meant(ghost: str, rest: str) -> int:
    """Return how many characters of the ghost text match: all, its first lines, or 0."""
    line_ends = [idx for idx, char in enumerate(ghost) if char == "\n"]
    for n_chars in (len(ghost), *reversed(line_ends)):
        taken = ghost[:n_chars]
        if rest.startswith(taken) and len(taken.strip()) >= LEAST_CHARS_TAKEN:
            return n_chars
    return 0
