"""The request for the next edit around the cursor, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from speclsp.seam.documents import TextEdit
from speclsp.seam.request import AnswerSource, FinishReason, Request, Result
from speclsp.seam.statistics import RequestStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An earlier change: whole lines of a file, each with its line end, masked."""

    path: str
    line: int
    """The first changed line, from 0, as the file was after the change."""
    old: str
    new: str
    before: str = ""
    """Lines before the changed ones, as context."""
    after: str = ""
    is_accepted: bool = False
    """Whether it was a suggestion."""
    file: str = ""
    """The document's, as :attr:`Document.file`."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All that a prompt may show of it."""
        return (self.path, self.old, self.new, self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A token with which the answer to an edit request departs from the text."""

    line: str
    """The line of the answer that the token is in, masked."""
    probability: float
    """By the model, at temperature 1."""


class EditResult(Result, frozen=True, kw_only=True):
    """The next edit of a document, or none."""

    completion_id: str
    finish_reason: FinishReason
    hunks: tuple[TextEdit, ...] = ()
    """The lines that change, as they are shown; whole lines, rising.  None: there is no edit."""
    is_far: bool = False
    """Whether the edit begins or ends more than two lines from the cursor."""
    probability: float | None = None
    """Of the first of ``divergences``; None where it was not computed."""
    divergences: tuple[Divergence, ...] = ()
    """One for each hunk of the answer, also where the edit is withheld."""
    withheld: str = ""
    """Why an edit that the model proposed is not shown (:data:`speclsp.edits.edit.Withheld`), or
    why there was no request of the model: ``refused``, ``secret``."""
    elsewhere: tuple[str, int] | None = None
    """URI and version of the document that it is of, where that is not the request's."""

    @property
    def is_empty(self) -> bool:
        """Whether it suggests nothing."""
        return not self.hunks


class EditRequest(Request[EditResult], frozen=True, kw_only=True):
    """A request for the next edit around the cursor."""

    kind: ClassVar[str] = "edit"
    urgency: ClassVar[int] = 1
    n_deadlines: ClassVar[int] = 4
    """Half an answer is no edit, and plugins ask once after a change; suggestions go before it, and
    a change supersedes it."""

    declined: tuple[tuple[str, str], ...] = ()
    """Old and new lines of hunks that the user declined."""
    changes: tuple[Change, ...] = ()
    """The window's latest changes, the oldest first."""

    def empty(self, reason: FinishReason, source: AnswerSource = "model") -> EditResult:
        """Return a result without an edit."""
        return EditResult(
            completion_id=self.completion_id,
            finish_reason=reason,
            stats=RequestStats(),
            source=source,
        )
