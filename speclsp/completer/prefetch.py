"""What to complete in idle time: that which follows the acceptance of what is on screen.

One step ahead and no further: what was prefetched is looked beyond only when it is on screen.
Prefetching costs a completion's work for every suggestion shown, which a machine on battery
notices.  So it rests where it is seldom used, and tries again from time to time.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, deque
from typing import Final

from speclsp.request import CompletionRequest
from speclsp.suggestions.place import Place, place_of

N_LATEST: Final = 24
"""Latest prefetches that decide whether they are worth it."""
LEAST_USED: Final = 0.1
"""Where a smaller share of them answers a request, prefetching rests."""
N_RESTED: Final = 6
"""While it rests, one in so many suggestions is prefetched for all the same."""
N_AGREED: Final = 2
"""Who has typed so much as suggested is likely to take what is left: then nothing rests."""

_MAX_PLACES: Final = 32


class Prefetches:
    """Decides what is prefetched.  It is not synchronised."""

    def __init__(self) -> None:
        self._latest_places: OrderedDict[str, Place] = OrderedDict()
        self._unused: OrderedDict[str, None] = OrderedDict()
        self._was_used: deque[bool] = deque(maxlen=N_LATEST)
        self._n_rested = 0

    def request_after(
        self,
        request: CompletionRequest,
        text: str,
        n_replaced: int,
        *,
        n_said: int,
    ) -> CompletionRequest | None:
        """Return the request that the acceptance of ``text`` is going to lead to.

        ``text`` is what is left of a suggestion of which ``n_said`` characters were typed.  None
        where the request is known already, or where prefetching rests.
        """
        after = dataclasses.replace(
            request,
            prefix=request.prefix + text,
            suffix=request.suffix[n_replaced:],
            trigger="automatic",
            n_candidates=1,
            wait_for_model=False,
        )
        place = place_of(after)
        if self._latest_places.get(request.uri) == place:
            return None
        if n_said < N_AGREED and self._is_at_rest():
            return None
        self._latest_places[request.uri] = place
        self._latest_places.move_to_end(request.uri)
        while len(self._latest_places) > _MAX_PLACES:
            self._latest_places.popitem(last=False)
        return after

    def made(self, completion_id: str) -> None:
        """Note that a prefetch has an answer."""
        self._unused[completion_id] = None
        if len(self._unused) > N_LATEST:
            self._unused.popitem(last=False)
            self._was_used.append(False)

    def used(self, completion_id: str) -> bool:
        """Note that a prefetch's answer was given; True for the first time."""
        if completion_id not in self._unused:
            return False
        del self._unused[completion_id]
        self._was_used.append(True)
        return True

    def forget(self) -> None:
        """Forget which places are known: the answers are."""
        self._latest_places.clear()
        self._unused.clear()

    def _is_at_rest(self) -> bool:
        n = len(self._was_used)
        if n < N_LATEST or sum(self._was_used) >= LEAST_USED * n:
            return False
        self._n_rested = (self._n_rested + 1) % N_RESTED
        return self._n_rested != 0
