"""The code that the demo types, accepting ghost text that matches it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from speclsp.request import CompletionResult, Ranges


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


class Editor(Protocol):
    """An editor with one open file."""

    def open(self, path: Path, text: str) -> None:
        """Open a file in place of the one that is open."""

    def change(self, text: str) -> None:
        """Replace the file's text."""

    def save(self) -> None:
        """Note that the text was written to the file."""

    async def complete(self, offset: int) -> CompletionResult:
        """Complete at a cursor: so many characters from the beginning of the text."""

    def accept(self, result: CompletionResult, n_chars: int) -> None:
        """Note that the first characters of a result's text were inserted."""


async def type_scene(
    scene: Scene, folder: Path, editor: Editor, show: Callable[[Frame], Awaitable[None]]
) -> Frame:
    """Type a scene key by key, ask for ghost text after each key, and return the last frame."""
    path = folder / scene.path
    text = path.read_text(encoding="utf-8")
    editor.open(path, text)
    head, tail = scene.split(text)
    frame = Frame(path=scene.path, before=head, after=tail, start=len(head))
    while meant := scene.meant[len(frame.before) - len(head) :]:
        before = frame.before
        result = await editor.complete(len(before))
        # Ghost text does not show that text behind the cursor is replaced.
        ghost = "" if result.n_replaced else result.text
        n_taken = _n_meant(ghost, meant)
        ranges = result.drafted if ghost else ()
        await show(replace(frame, ghost=ghost, drafted=ranges, n_taking=n_taken))
        accepted = ((len(before), len(before) + n_taken),) if n_taken else ()
        frame = replace(
            frame,
            before=before + meant[: n_taken or 1],
            accepted=(*frame.accepted, *accepted),
        )
        editor.change(frame.before + tail)
        if n_taken:
            editor.accept(result, n_taken)
    path.write_text(frame.before + tail, encoding="utf-8")
    editor.save()
    return frame


def _n_meant(ghost: str, rest: str) -> int:
    """Return how many characters of the ghost text match: all, its first lines, or 0."""
    line_ends = [idx for idx, char in enumerate(ghost) if char == "\n"]
    for n_chars in (len(ghost), *reversed(line_ends)):
        taken = ghost[:n_chars]
        if rest.startswith(taken) and len(taken.strip()) >= LEAST_CHARS_TAKEN:
            return n_chars
    return 0
