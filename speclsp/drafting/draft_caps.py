"""How far drafts of one kind were right last time, and so how far to draft the next one.

llama.cpp's n-gram maps cap a key's next draft at what was accepted of its last one.  There a cap
can only fall; here it doubles when a draft was right to its end, and where it is 0, every
``PROBE_EVERY``-th time one token is drafted all the same.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from speclsp.drafting.draft_length import PROBE_EVERY

MAX_CAPS: Final = 4096
"""Keys that are remembered; the least recently used beyond that start anew."""


class DraftCaps:
    """Most tokens to draft, by key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._caps: OrderedDict[bytes, int] = OrderedDict()
        self._n_declined: dict[bytes, int] = {}

    def length(self, key: bytes) -> int:
        """Return how many tokens may be drafted now."""
        cap = self._caps.get(key, self._most)
        if cap:
            return cap
        n_declined = self._n_declined[key] = (self._n_declined.get(key, 0) + 1) % PROBE_EVERY
        return 1 if n_declined == 0 else 0

    def learn(self, key: bytes, n_drafted: int, n_accepted: int) -> None:
        """Of a draft of ``n_drafted`` tokens so many were right."""
        cap = n_accepted
        if n_accepted == n_drafted:
            cap = min(max(self._caps.get(key, self._most), 2 * n_drafted), self._most)
        self._caps[key] = cap
        self._caps.move_to_end(key)
        if cap:
            self._n_declined.pop(key, None)
        if len(self._caps) > MAX_CAPS:
            oldest, _ = self._caps.popitem(last=False)
            self._n_declined.pop(oldest, None)
