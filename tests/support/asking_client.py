"""When a client asks for next edits: the table of docs/lsp.md, with a clock that the caller moves.

It decides and sends nothing; :class:`EditingClient` types with it into a real server.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.server_process import ServerProcess, line_and_character

IDLE_S = 0.3
PASTE_S = 1.5
PASTE_CHARS = 200
PASTE_LINES = 8


@dataclass
class AskingMoments:
    """What a client knows of its user; ``due`` says whether to ask now."""

    is_completion_open: bool = False
    """Whether a suggestion is on screen or asked for."""
    has_selection: bool = False
    """Or a snippet or a menu is open."""
    _edited_line: int | None = None
    """The line of the latest edit, until it was asked about."""
    _is_wanted: bool = False
    """Whether to ask without waiting."""
    _last_key: float = 0.0
    _inserted: deque[tuple[float, int, int]] = field(default_factory=deque)
    """Time, characters and lines of the latest insertions."""
    _asked: tuple[int, int, int] | None = None
    """Version, line and column that were asked about last."""

    def edited(self, now: float, line: int, inserted: str) -> None:
        """Note an edit of the user's in a line."""
        self._last_key = now
        self._inserted.append((now, len(inserted), inserted.count("\n")))
        while now - self._inserted[0][0] > PASTE_S:
            self._inserted.popleft()
        n_chars = sum(chars for _, chars, _ in self._inserted)
        n_lines = sum(lines for _, _, lines in self._inserted)
        is_paste = n_chars >= PASTE_CHARS or n_lines >= PASTE_LINES
        self._edited_line = None if is_paste else line
        self._is_wanted = False

    def moved(self, now: float, line: int) -> None:
        """Note that the cursor moved to a line."""
        self._last_key = now
        # What was accepted is still to be asked about: its own move may be told late.
        if self._edited_line is not None:
            self._is_wanted = line != self._edited_line

    def accepted(self) -> None:
        """Note that an edit or a suggestion was accepted, and is applied."""
        self._edited_line, self._is_wanted, self._asked = None, True, None
        self._inserted.clear()

    def due(self, now: float, version: int, line: int, column: int) -> bool:
        """Whether to ask now about a version and a cursor; they then count as asked."""
        if self.is_completion_open or self.has_selection:
            return False
        is_idle = self._edited_line is not None and now - self._last_key >= IDLE_S
        if not (self._is_wanted or is_idle) or self._asked == (version, line, column):
            return False
        self._asked = version, line, column
        self._edited_line, self._is_wanted = None, False
        return True


class EditingClient:
    """A document of a real server, typed into; next edits are asked for by the table."""

    def __init__(self, server: ServerProcess, text: str) -> None:
        self.server = server
        self.text = text
        self.version = 1
        self.cursor = 0
        self.now = 0.0
        """Seconds of the client's clock."""
        self.moments = AskingMoments()
        self.n_asked = 0
        self.shown: list[dict[str, Any]] = []
        """The edits that were answered."""

    async def type(self, start: int, end: int, new: str, *, s_per_key: float = 0.1) -> None:
        """Delete a range, and type a text character by character."""
        if start < end:
            await self._change(start, end, "", s_per_key)
        for idx, character in enumerate(new):
            await self._change(start + idx, start + idx, character, s_per_key)

    async def rest(self, seconds: float) -> None:
        """Do nothing for a while."""
        self.now += seconds
        await self._ask_if_due()

    async def accept(self, edit: dict[str, Any]) -> None:
        """Apply an edit, tell the server, and ask again."""
        start, end = (self._offset(edit["range"][name]) for name in ("start", "end"))
        self.text = self.text[:start] + edit["text"] + self.text[end:]
        self.cursor = start + len(edit["text"])
        self.version += 1
        self.server.change(self.text)
        await self.server.execute_command("speclsp.acceptedEdit", [edit["id"]])
        self.moments.accepted()
        await self._ask_if_due()

    @property
    def line(self) -> int:
        """The cursor's line, from 0."""
        return self.text.count("\n", 0, self.cursor)

    async def _change(self, start: int, end: int, new: str, seconds: float) -> None:
        self.now += seconds
        await self._ask_if_due()  # a timer that fired before the key
        self.text = self.text[:start] + new + self.text[end:]
        self.cursor = start + len(new)
        self.version += 1
        self.server.change(self.text)
        line = self.text.count("\n", 0, start)
        self.moments.edited(self.now, line, new)
        self.moments.moved(self.now, self.line)
        await self._ask_if_due()

    async def _ask_if_due(self) -> None:
        line, column = line_and_character(self.text, self.cursor)
        if self.moments.due(self.now, self.version, line, column):
            self.n_asked += 1
            edits = await self.server.next_edit(line, column)
            assert len(edits) <= 1
            self.shown += edits
            for edit in edits:
                self.server.did_show(edit)

    def _offset(self, position: dict[str, int]) -> int:
        lines: Sequence[str] = self.text.split("\n")[: position["line"]]
        return sum(len(line) + 1 for line in lines) + position["character"]
