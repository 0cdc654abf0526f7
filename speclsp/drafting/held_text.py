"""Text that the output has to begin with: no draft that says something else is worth a pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldText:
    """The bytes that the sampler holds the target to (see :mod:`speclsp.prompt.healing`)."""

    data: bytes
    piece: Callable[[int], bytes]
    """The bytes of a token."""

    def admits(self, generated: Sequence[int], draft: Sequence[int]) -> bool:
        """Whether ``draft`` behind ``generated`` goes along with the text."""
        data = self.data
        n_said = 0
        for token in generated:
            if n_said >= len(data):
                return True
            n_said += len(self.piece(token))
        for token in draft:
            if n_said >= len(data):
                return True
            piece = self.piece(token)
            if piece[: len(data) - n_said] != data[n_said : n_said + len(piece)]:
                return False
            n_said += len(piece)
        return True


NOTHING_HELD = HeldText(b"", lambda _token: b"")
"""Every draft goes along with it."""
