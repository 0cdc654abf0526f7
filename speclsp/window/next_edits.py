"""A window's next edits: asked for in masked texts, answered in its own; what became of them."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection
from itertools import accumulate, chain
from typing import Final

from msgspec import structs

from speclsp.edits.analogy import Renaming, renaming_of
from speclsp.edits.edit import is_far, left_after, place_to_go_on, smallest_edit
from speclsp.reporting.session import percentiles, summed
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completer import Completer
from speclsp.seam.documents import AcceptedText, Document, edit_between
from speclsp.seam.edit import EditRequest, EditResult
from speclsp.seam.request import PlacedRequest
from speclsp.seam.statistics import EditStats, RequestStats
from speclsp.secrets.pieces import Pieces
from speclsp.text.languages import PROSE
from speclsp.window.ledger import Offers
from speclsp.window.masked_documents import MaskedDocuments, Refusal

_N_PROPOSED: Final = 32
"""Latest edits that a client may still report on."""
_N_DECLINED: Final = 64
"""Latest declined hunks that are not proposed again in their documents."""
_N_TIMES: Final = 1_000
_NONE_HERE: Final = ("no-place", "kept")
"""Why there is no edit by analogy in a document, so that another one may have a place."""
_N_SEARCHED: Final = 400_000
"""Characters of other documents in which places are looked for, at most: that takes 2 ms."""


@dataclasses.dataclass(slots=True, eq=False)
class _Proposed:
    uri: str
    text: str
    """What the edit inserts."""
    hunks: tuple[tuple[str, str], ...]
    """Old and new lines, masked."""
    before: str
    """The lines before the edit, masked."""
    is_shown: bool = False
    is_accepted: bool = False
    is_declined: bool = False
    reports: set[str] = dataclasses.field(default_factory=set)
    """What the client has reported of it."""

    def holds(self, pieces: Pieces) -> bool:
        """Whether it holds a piece of a secret."""
        return any(map(pieces.are_in, (self.before + self.text, *chain(*self.hunks))))


class NextEdits:
    """Next edits of one window.  Any thread may call it.

    What was declined, or accepted and undone, is not proposed again in its document while its lines
    stay as they are.  What the user types of a proposal is not asked for again.
    """

    def __init__(
        self,
        completer: Completer,
        documents: MaskedDocuments,
        learn: Callable[[AcceptedText], None],
        offers: Offers,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._completer = completer
        self._documents = documents
        self._learn = learn
        self._offers = offers
        self._clock = clock
        self._lock = threading.Lock()
        self._proposed: OrderedDict[str, _Proposed] = OrderedDict()
        self._kept: tuple[Document, EditResult] | None = None
        """The latest proposal, masked, of which the user may type a part, and its document."""
        self._declined: deque[tuple[str, tuple[str, str]]] = deque(maxlen=_N_DECLINED)
        """A document's URI, and old and new lines, masked."""
        self._n_forgotten = 0
        """How often something became a secret: what was asked before is not proposed."""
        self._counts: Counter[str] = Counter()
        self._withheld: Counter[str] = Counter()
        self._totals = RequestStats()
        self._times: deque[float] = deque(maxlen=_N_TIMES)

    async def next_edit(
        self,
        request: EditRequest,
        cancel: CancellationToken,
        others: Callable[[], Collection[str]] = tuple,
    ) -> EditResult:
        """Return the next edit around a cursor, in the text of the request's version.

        Where the document has no place for a name that was given another one, the next edit may be
        in one of those whose URIs ``others`` returns.  Raises what the completer's future does.
        """
        started = self._clock()
        with self._lock:
            self._counts["n_asked"] += 1
        named = structs.replace(request, completion_id=uuid.uuid4().hex)
        await self._documents.until_masked(named)
        plain = self.masked_request(named)
        masked = self._documents.at_version(named.uri, named.version)
        if masked is None or not isinstance(plain, EditRequest):
            empty = named.empty("stop" if plain == "private" else "cancelled", "filter")
            return self._without_edit(empty, "secret" if plain == "private" else "")
        with self._lock:
            rest = self._rest(masked, plain.offset)
            declined = tuple(hunk for uri, hunk in self._declined if uri == named.uri)
            n_forgotten = self._n_forgotten
        if rest is not None:
            return self._kept_on(named, masked, rest)
        plain = structs.replace(plain, declined=declined)
        try:
            result = await self._answer(plain, cancel)
            place = _place_to_go_on(plain, masked) if result.withheld == "unchanged" else None
            if place is not None:
                there = await self._answer(structs.replace(plain, offset=place), cancel)
                result = _as_seen_from(plain.offset, there, result.stats)
            asked, document = plain, masked
            if result.withheld in _NONE_HERE:
                asked, document, result = await self._elsewhere(
                    plain, masked, result, others, cancel
                )
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            with self._lock:
                self._withheld["cancelled" if is_cancelled else "failed"] += 1
            raise
        if n_forgotten != self._n_forgotten:
            return self._without_edit(result, "changed")
        return self._taken(asked, document, result, 1000 * (self._clock() - started))

    async def _elsewhere(
        self,
        plain: EditRequest,
        masked: Document,
        here: EditResult,
        others: Callable[[], Collection[str]],
        cancel: CancellationToken,
    ) -> tuple[EditRequest, Document, EditResult]:
        """Return the next edit in another document, where there is none here.

        With it come the request and the document that it is of.
        """
        stats = here.stats
        with self._lock:
            declined = tuple(hunk for _, hunk in self._declined)
        renaming = await asyncio.to_thread(renaming_of, plain.changes)
        if renaming is None or any(renaming.is_in(*hunk) for hunk in declined):
            return plain, masked, here
        # Uses here that the model left as they are would be found, and left, again.
        own = (plain.uri,) if here.withheld == "no-place" else ()
        for document in self._searched(renaming, {*own, *others()}):
            offset = await asyncio.to_thread(
                renaming.place, document.text, document.path, plain.changes
            )
            if offset is None:
                continue
            asked = structs.replace(
                plain,
                uri=document.uri,
                version=document.version,
                offset=offset,
                changes=(*plain.changes, renaming.change),
                declined=declined,
            )
            there = await self._answer(asked, cancel)
            stats = summed(stats, there.stats)
            if there.hunks and self._documents.get(plain.uri) is masked:
                where = document.uri, document.version
                there = structs.replace(there, elsewhere=where, is_far=True, stats=stats)
                return asked, document, there
            if there.source == "model" and document.uri != plain.uri:
                break  # what the model leaves in one, it gets wrong in another as often as not
        return plain, masked, structs.replace(here, stats=stats)

    def _searched(self, renaming: Renaming, uris: Collection[str]) -> list[Document]:
        """Return those of some documents in which uses of a name are looked for.

        There are none before the file that declares it, all cells of a notebook, has no more of
        them.
        """
        every = self._documents.all_masked()
        its_file = renaming.change.path, renaming.change.file
        home = [one for one in every if (one.path, one.file) == its_file]
        if not home or not all(renaming.is_done(one.text) for one in home):
            return []
        asked = (one for one in every if one.uri in uris and one not in home)
        found = [one for one in asked if one.language_id not in PROSE]  # a name is any word there
        n_chars = accumulate(len(one.text) for one in found)
        return [one for one, n in zip(found, n_chars, strict=True) if n <= _N_SEARCHED]

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
        return structs.replace(placed.plain, changes=self._documents.changes())

    def forget_secrets(self, pieces: Pieces) -> None:
        """Forget the proposals, declined ones too, that hold a piece of a secret."""
        with self._lock:
            self._n_forgotten += 1
            kept = (
                (one_id, one) for one_id, one in self._proposed.items() if not one.holds(pieces)
            )
            self._proposed = OrderedDict(kept)
            if self._kept is not None and self._kept[1].completion_id not in self._proposed:
                self._kept = None
            declined = (one for one in self._declined if not any(map(pieces.are_in, one[1])))
            self._declined = deque(declined, maxlen=_N_DECLINED)

    def shown(self, edit_id: str) -> None:
        """Note that an edit is on screen; it counts once."""
        with self._lock:
            found = self._proposed.get(edit_id)
            if found is not None:
                self._count_shown(found)

    def accepted(self, edit_id: str) -> bool:
        """Take a client's report that an edit was accepted; return whether it is the first."""
        return self._is_first_report(edit_id, "accepted") and self.made(edit_id)

    def made(self, edit_id: str) -> bool:
        """Note that a document has an edit now, and return whether it is known.

        Its text is learned once.
        """
        with self._lock:
            found = self._proposed.get(edit_id)
        if found is None:
            return False
        document = self._documents.newest_masked(found.uri)
        with self._lock:
            if found.is_accepted:
                return True
            found.is_accepted = True
            self._kept = None
            self._count_shown(found)
            self._counts["n_accepted"] += 1
        self._offers.accepted(edit_id)
        self._documents.accepted(found.uri, found.text)
        if document is not None and found.text.strip():
            self._learn(
                AcceptedText(
                    path=document.path,
                    file=document.file,
                    before=found.before,
                    text=found.text,
                    uri=document.uri,
                    workspace=document.workspace,
                )
            )
        return True

    def declined(self, edit_id: str) -> bool:
        """Take a report that an edit was declined or undone; return whether it is the first."""
        is_first = self._is_first_report(edit_id, "declined")
        self.undone(edit_id)
        return is_first

    def undone(self, edit_id: str) -> None:
        """Note that a document is as it was without an edit, which is not wanted there again."""
        with self._lock:
            found = self._proposed.get(edit_id)
            if found is None or found.is_declined:
                return
            found.is_declined = True
            if self._kept is not None and self._kept[1].completion_id == edit_id:
                self._kept = None
            self._count_shown(found)
            self._counts["n_declined"] += 1
            self._declined.extend((found.uri, hunk) for hunk in found.hunks)

    def _is_first_report(self, edit_id: str, report: str) -> bool:
        with self._lock:
            found = self._proposed.get(edit_id)
            if found is None or report in found.reports or "declined" in found.reports:
                return False
            found.reports.add(report)
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

    # --- with the lock held -----------------------------------------------------------------------

    def _rest(self, masked: Document, cursor: int) -> EditResult | None:
        """Return what is left of the kept proposal where the user typed a part of it."""
        if self._kept is None:
            return None
        document, result = self._kept
        was = document.text
        if document.uri != masked.uri or was == masked.text:
            return None
        left = left_after(result.hunks, was, edit_between(was, masked.text))
        if not left:
            self._kept = None
            return None
        far = is_far(masked.text, smallest_edit(left, masked.text), cursor)
        return structs.replace(result, hunks=left, is_far=far, stats=RequestStats())

    def _count_shown(self, found: _Proposed) -> None:
        if not found.is_shown:
            found.is_shown = True
            self._counts["n_shown"] += 1

    def _propose(self, masked: Document, result: EditResult) -> None:
        """Keep a proposal, for reports of it and for what the user types of it."""
        self._kept = masked, result
        start = masked.text.rfind("\n", 0, result.hunks[0].start) + 1
        former = self._proposed.pop(result.completion_id, None)
        self._proposed[result.completion_id] = _Proposed(
            uri=masked.uri,
            text=smallest_edit(result.hunks, masked.text).text,
            hunks=tuple((masked.text[one.start : one.end], one.text) for one in result.hunks),
            before="".join(masked.text[:start].splitlines(keepends=True)[-2:]),
            is_shown=former is not None and former.is_shown,
        )
        while len(self._proposed) > _N_PROPOSED:
            self._proposed.popitem(last=False)

    # ----------------------------------------------------------------------------------------------

    def _taken(
        self, request: EditRequest, masked: Document, result: EditResult, ms: float
    ) -> EditResult:
        """Count a result, and return it in the window's text."""
        own = self._unmasked(request, masked, result)
        with self._lock:
            self._totals = summed(self._totals, own.stats)
            if own.hunks:
                self._propose(masked, result)
        newest = self._documents.get(request.uri)
        if not own.hunks:
            refused = not own.withheld and own.finish_reason == "stop"
            return self._without_edit(own, "refused" if refused else own.withheld)
        if newest is not masked:
            return self._without_edit(own, "changed")
        with self._lock:
            self._times.append(ms)
            self._counts["n_proposed"] += 1
        self._offer(request, own)
        return own

    def _kept_on(self, request: EditRequest, masked: Document, rest: EditResult) -> EditResult:
        """Count and return what is left of a proposal, in the window's text."""
        own = self._unmasked(request, masked, rest)
        if not own.hunks:
            return self._without_edit(own, own.withheld)
        with self._lock:
            self._counts["n_kept"] += 1
            self._propose(masked, rest)
        self._offer(request, own)
        return own

    def _offer(self, request: EditRequest, own: EditResult) -> None:
        """Let a change of the document tell of an edit, for clients that do not."""
        text = self._documents.raw_text(request.uri, request.version)
        if text is not None:
            edit = smallest_edit(own.hunks, text)
            self._offers.offer(own.completion_id, request.uri, text, edit)

    def _without_edit(self, result: EditResult, withheld: str) -> EditResult:
        """Count and return a result that shows nothing."""
        with self._lock:
            self._withheld[withheld or result.finish_reason] += 1
        return structs.replace(result, hunks=(), withheld=withheld)

    def _unmasked(self, request: EditRequest, masked: Document, result: EditResult) -> EditResult:
        if not result.hunks:
            return result
        own = [
            self._documents.raw_edit(request.uri, request.version, edit)
            for edit in (smallest_edit(result.hunks, masked.text), *result.hunks)
        ]
        whole = [edit for edit in own if edit is not None]
        if len(whole) < len(own):
            return structs.replace(result, hunks=(), withheld="secret")
        return structs.replace(result, hunks=tuple(whole[1:]))


def _place_to_go_on(request: EditRequest, masked: Document) -> int | None:
    """Return where the latest change of a document may have to be made again, if anywhere."""
    of_document = [change for change in request.changes if change.path == masked.path]
    return place_to_go_on(masked.text, request.offset, of_document[-1]) if of_document else None


def _as_seen_from(cursor: int, result: EditResult, before: RequestStats) -> EditResult:
    """Return the result of asking elsewhere, after an answer that cost ``before``."""
    result = structs.replace(result, is_far=True, stats=summed(before, result.stats))
    is_inserted = all(one.start == one.end for one in result.hunks)
    if result.hunks and is_inserted and result.hunks[0].start <= cursor:
        return structs.replace(result, hunks=(), withheld="above-cursor")
    return result
