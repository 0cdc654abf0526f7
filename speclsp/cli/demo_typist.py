"""The code that the demo types, accepting ghost text that matches it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
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


async def type_scene(
    scene: Scene,
    folder: Path,
    server: ServerProcess,
    show: Callable[[Frame], Awaitable[None]],
    drafted: Callable[[str], Ranges],
) -> Frame:
    """Type a scene key by key, ask for ghost text after each key, and return the last frame.

    ``drafted`` returns, by a completion's id, the ranges of its text that drafts gave.
    """
    path = folder / scene.path
    text = path.read_text(encoding="utf-8")
    server.open(path, text)
    head, tail = scene.split(text)
    frame = Frame(path=scene.path, before=head, after=tail, start=len(head))
    while meant := scene.meant[len(frame.before) - len(head) :]:
        before = frame.before
        line_start = before.rfind("\n") + 1
        items = await server.inline_completion(before.count("\n"), len(before) - line_start)
        ghost = _ghost_text(items[0], before[line_start:]) if items else ""
        n_taken = _n_meant(ghost, meant)
        ranges = drafted(items[0].arguments[0]) if ghost else ()
        await show(replace(frame, ghost=ghost, drafted=ranges, n_taking=n_taken))
        accepted = ((len(before), len(before) + n_taken),) if n_taken else ()
        frame = replace(
            frame,
            before=before + meant[: n_taken or 1],
            accepted=(*frame.accepted, *accepted),
        )
        server.change(frame.before + tail)
        if n_taken and n_taken < len(ghost):
            server.accept_partly(items[0], len(items[0].insert_text) - len(ghost) + n_taken)
        elif n_taken:
            await server.accept(items[0])
    path.write_text(frame.before + tail, encoding="utf-8")
    server.save()
    return frame


def _ghost_text(item: InlineItem, line_before: str) -> str:
    """Return what an item adds at the cursor, empty if it replaces text behind it.

    An item may begin with the end of ``line_before``, the text before the cursor on its line.
    """
    typed = line_before[item.start_character :]
    fits = item.end_character == len(line_before) and item.insert_text.startswith(typed)
    return item.insert_text[len(typed) :] if fits else ""


def _n_meant(ghost: str, rest: str) -> int:
    """Return how many characters of the ghost text match: all, its first lines, or 0."""
    line_ends = [idx for idx, char in enumerate(ghost) if char == "\n"]
    for n_chars in (len(ghost), *reversed(line_ends)):
        taken = ghost[:n_chars]
        if rest.startswith(taken) and len(taken.strip()) >= LEAST_CHARS_TAKEN:
            return n_chars
    return 0
