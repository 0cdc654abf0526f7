"""A piece of text that may help at the cursor, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal["edit", "diff", "declaration", "viewed", "similar"]
"""What was edited last, how, what a name near the cursor means, what was looked at last, and what
looks like the text around the cursor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """``text`` stands at ``first_line`` (from 0) of the file ``path``."""

    path: str
    """Relative to its workspace folder, with slashes."""
    first_line: int
    text: str
    reason: Reason
    detail: str
    """Says in a few words what the reason was here."""
    score: float
    """From 0 to 1, comparable between all candidates."""
    name: str = ""
    """What keeps it apart from others of its file while lines move; "" for its first line."""

    @property
    def last_line(self) -> int:
        """The last line that it covers."""
        return self.first_line + self.text.rstrip("\n").count("\n")

    @property
    def key(self) -> str:
        """Names the place: the same one with other text is a newer version of it."""
        return f"{self.reason}:{self.path}:{self.name or self.first_line}"
