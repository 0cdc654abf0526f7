"""A window's next edits: asked for in masked texts, answered in its own; what became of them."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Final

from speclsp.cancellation import CancellationToken
from speclsp.decoding.session import percentiles, summed
from speclsp.edits.edit import place_to_go_on
from speclsp.request import (
    AcceptedText,
    Document,
    EditRequest,
    EditResult,
    EditStats,
    PlacedRequest,
    RequestStats,
    TextEdit,
)
from speclsp.seam import Completer
from speclsp.suggestions.masked_documents import MaskedDocuments, Refusal

_MASK_POLL_S: Final = 0.01
"""Seconds after which a request checks again whether its version was masked."""
_N_PROPOSED: Final = 32
"""Latest edits that a client may still report on."""
_N_DECLINED: Final = 64
"""Latest declined hunks that are not proposed again."""
_N_TIMES: Final = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class _Proposed:
    request: EditRequest
    edit: TextEdit
    hunks: tuple[tuple[str, str], ...]
    """Old and new lines, masked."""
    before: str
    """The lines before the edit, masked."""


class NextEdits:
    """Next edits of one window.  Any thread may call it.

    What was declined is not proposed again while its lines stay as they are.
    """

    def __init__(
        self,
        completer: Completer,
        documents: MaskedDocuments,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._completer = completer
        self._documents = documents
        self._clock = clock
        self._lock = threading.Lock()
        self._proposed: OrderedDict[str, _Proposed] = OrderedDict()
        self._shown: set[str] = set()
        self._declined: deque[tuple[str, str]] = deque(maxlen=_N_DECLINED)
        self._counts: Counter[str] = Counter()
        self._withheld: Counter[str] = Counter()
        self._totals = RequestStats()
        self._times: deque[float] = deque(maxlen=_N_TIMES)

    async def next_edit(self, request: EditRequest, cancel: CancellationToken) -> EditResult:
        """Return the next edit around a cursor, in the text of the request's version.

        Raises what the completer's future does.
        """
        started = self._clock()
        with self._lock:
            self._counts["n_asked"] += 1
            declined = tuple(self._declined)
        named = dataclasses.replace(request, completion_id=uuid.uuid4().hex, declined=declined)
        while (plain := self.masked_request(named)) == "unknown" and (
            self._documents.is_masked_soon(named)
        ):
            await asyncio.sleep(_MASK_POLL_S)
        masked = self._documents.at_version(named.uri, named.version)
        if masked is None or not isinstance(plain, EditRequest):
            return named.empty("stop" if plain == "private" else "cancelled", "filter")
        result = await self._answer(plain, cancel)
        if result.withheld == "unchanged" and (place := _place_to_go_on(plain, masked)) is not None:
            there = await self._answer(dataclasses.replace(plain, offset=place), cancel)
            result = _as_seen_from(plain.offset, there, result.stats)
        return self._taken(named, masked.text, result, 1000 * (self._clock() - started))

    async def _answer(self, plain: EditRequest, cancel: CancellationToken) -> EditResult:
        # The completer's thread sets the future, so it must not be cancelled.
        answer = asyncio.wrap_future(self._completer.submit(plain, cancel))
        answer.add_done_callback(lambda done: done.exception())
        return await asyncio.shield(answer)

    def masked_request(self, request: EditRequest) -> EditRequest | Refusal:
        """Return a request as the completer takes it, or why there is none."""
        placed = self._documents.place(request)
        if not isinstance(placed, PlacedRequest):
            return placed
        return dataclasses.replace(placed.plain, changes=self._documents.changes())

    def shown(self, edit_id: str) -> None:
        """Note that an edit is on screen; it counts once."""
        with self._lock:
            if edit_id in self._proposed:
                self._count_shown(edit_id)

    def accepted(self, edit_id: str) -> bool:
        """Note that an edit was accepted, and return whether it is known: its text is learned."""
        with self._lock:
            found = self._proposed.pop(edit_id, None)
            if found is None:
                return False
            self._count_shown(edit_id)
            self._counts["n_accepted"] += 1
        document = self._documents.newest_masked(found.request.uri)
        self._documents.accepted(found.request.uri, found.edit.text)
        if document is not None and found.edit.text.strip():
            self._completer.learn(
                AcceptedText(
                    path=document.path,
                    file=document.file,
                    before=found.before,
                    text=found.edit.text,
                    uri=document.uri,
                    workspace=document.workspace,
                )
            )
        return True

    def declined(self, edit_id: str) -> bool:
        """Note that an edit was declined, and return whether it is known."""
        with self._lock:
            found = self._proposed.pop(edit_id, None)
            if found is None:
                return False
            self._count_shown(edit_id)
            self._counts["n_declined"] += 1
            self._declined.extend(found.hunks)
            return True

    def statistics(self) -> EditStats:
        """Return the session's counts."""
        with self._lock:
            return EditStats(
                **self._counts,
                withheld=dict(self._withheld),
                totals=self._totals,
                answer=percentiles(self._times),
            )

    def _count_shown(self, edit_id: str) -> None:
        if edit_id not in self._shown:
            self._shown.add(edit_id)
            self._counts["n_shown"] += 1

    def _taken(
        self, request: EditRequest, masked: str, result: EditResult, ms: float
    ) -> EditResult:
        """Count a result, and return it in the window's text."""
        own = self._unmasked(request, result)
        with self._lock:
            self._totals = summed(self._totals, own.stats)
            if own.edit is None:
                self._withheld[own.withheld or own.finish_reason] += 1
                return own
            self._times.append(ms)
            self._counts["n_proposed"] += 1
            start = masked.rfind("\n", 0, result.hunks[0].start) + 1
            self._proposed[own.completion_id] = _Proposed(
                request,
                own.edit,
                tuple((masked[one.start : one.end], one.text) for one in result.hunks),
                "".join(masked[:start].splitlines(keepends=True)[-2:]),
            )
            while len(self._proposed) > _N_PROPOSED:
                edit_id, _ = self._proposed.popitem(last=False)
                self._shown.discard(edit_id)
        return own

    def _unmasked(self, request: EditRequest, result: EditResult) -> EditResult:
        if result.edit is None:
            return result
        own = [
            self._documents.raw_edit(request.uri, request.version, edit)
            for edit in (result.edit, *result.hunks)
        ]
        whole = [edit for edit in own if edit is not None]
        if len(whole) < len(own):
            return dataclasses.replace(result, edit=None, hunks=(), withheld="secret")
        return dataclasses.replace(result, edit=whole[0], hunks=tuple(whole[1:]))


def _place_to_go_on(request: EditRequest, masked: Document) -> int | None:
    """Return where the latest change of a document may have to be made again, if anywhere."""
    of_document = [change for change in request.changes if change.path == masked.path]
    return place_to_go_on(masked.text, request.offset, of_document[-1]) if of_document else None


def _as_seen_from(cursor: int, result: EditResult, before: RequestStats) -> EditResult:
    """Return the result of asking elsewhere, after an answer that cost ``before``."""
    result = dataclasses.replace(result, is_far=True, stats=summed(before, result.stats))
    is_inserted = all(one.start == one.end for one in result.hunks)
    if result.edit is not None and is_inserted and result.edit.start <= cursor:
        return dataclasses.replace(result, edit=None, hunks=(), withheld="above-cursor")
    return result
