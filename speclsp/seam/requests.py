"""Requests of each kind as they cross the completer seam, and placed in their documents.

A request is a cursor, options, and what its kind adds.  :class:`PlacedRequest` does not cross it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from speclsp.seam.answers import (
    AnswerSource,
    CompletionResult,
    EditResult,
    FinishReason,
    GeneratedText,
    R,
    TextResult,
)
from speclsp.seam.documents import TextEdit
from speclsp.seam.statistics import RequestStats
from speclsp.settings import MAX_INT, PER_REQUEST, Settings
from speclsp.settings_resolution import Resolution, for_language, resolve

logger = logging.getLogger(__name__)

Origin = Literal["editor", "program"]
"""Who made a request: an editor, whose newer requests supersede older ones, or a program, which
gets the model's answer to each."""

Trigger = Literal["automatic", "invoked"]
"""Whether an editor asked while the user typed, or the user asked."""

SettingValue = bool | int | float | str | list[str] | dict[str, dict[str, bool | int | float | str]]

Q = TypeVar("Q", bound="Request[Any]")
"""A kind's request."""

Q_co = TypeVar("Q_co", bound="Request[Any]", covariant=True)


class DocumentCursor(msgspec.Struct, frozen=True, kw_only=True):
    """A cursor in one version of an open document."""

    uri: str
    version: int
    """The document's version that the cursor is in; later changes do not move it."""
    offset: int
    """The cursor: characters (code points) before it in the document, ``edit`` applied."""
    edit: TextEdit | None = None
    """A change that holds for this request alone, such as the selected item of a popup."""
    above: tuple[tuple[str, int], ...] = ()
    """(URI, version) of the open documents before this one: a notebook's other cells."""
    below: tuple[tuple[str, int], ...] = ()


class Request(DocumentCursor, Generic[R], frozen=True, kw_only=True, tag=True, array_like=True):
    """What the requests of all kinds have: a cursor and options.  ``R`` is the kind's answer.

    A newer request of an editor supersedes older ones of the same :attr:`key`.
    It is written as an array: its class's name, then the fields in order.
    """

    kind: ClassVar[str]
    urgency: ClassVar[int]
    """Editors' requests of greater urgency come first; programs' have none, 0."""
    n_deadlines: ClassVar[int] = 1
    """Times `deadline_ms` that the request may take."""

    completion_id: str = ""
    """The id of the answer's text; the completer makes one where it is empty."""
    settings: dict[str, SettingValue] = msgspec.field(default_factory=dict)
    """Settings of this request alone, of ``PER_REQUEST``, by canonical name."""
    overrides: dict[str, SettingValue] = msgspec.field(default_factory=dict)
    """Such settings of the document's workspace folder."""
    origin: Origin = "editor"
    is_prefetch: bool = False
    """Whether the request runs in idle time only, for an answer that may be asked for later."""
    wait_for_model: bool = False
    """Whether the request waits until the models are loaded, or else fails at once."""
    debounce_ms: float = 0.0
    """Milliseconds that the request waits for the next keystroke, which supersedes it, before it is
    decoded.  Where the running generation may answer it, it does not wait."""

    @property
    def key(self) -> tuple[str, str]:
        """The document and kind, of which a newer request supersedes the older ones."""
        return self.uri, self.kind

    def settings_over(self, settings: Settings, language_id: str) -> Settings:
        """Return the settings that hold for the request in a document of a language.

        Its own settings come before its language's, those before its folder's, and those before
        ``settings``.  Other settings than ``PER_REQUEST`` and wrong values are left out: requests
        come from other machines, too.  The deadline is the kind's, ``n_deadlines`` times as long.
        """
        own = self.settings
        return _resolved(_Layers(settings, self.overrides, language_id, own, self.n_deadlines))

    def empty(self, reason: FinishReason, source: AnswerSource = "model") -> R:
        """Return an answer without text."""
        raise NotImplementedError


class CompletionRequest(Request[CompletionResult], frozen=True, kw_only=True):
    """A request for a completion at the cursor."""

    kind: ClassVar[str] = "completion"
    urgency: ClassVar[int] = 2

    trigger: Trigger = "automatic"
    n_candidates: int = 1
    """Number of distinct texts, the best first."""

    def empty(self, reason: FinishReason, source: AnswerSource = "model") -> CompletionResult:
        """Return a result without text."""
        empty = GeneratedText(completion_id=self.completion_id, finish_reason=reason)
        return CompletionResult(generated=empty, stats=RequestStats(), source=source)


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


class TextRequest(Request[TextResult], frozen=True, kw_only=True):
    """A program's request for the model's own text, as it comes.

    It is the text between what is before and after the cursor or, with ``prompt``, what follows
    these tokens; the document is empty then.  Sampling follows the settings.
    """

    kind: ClassVar[str] = "text"
    urgency: ClassVar[int] = 0

    origin: Origin = "program"
    prompt: tuple[int, ...] = ()
    """The whole prompt, special tokens included; empty to lay it out around the cursor."""
    extra: tuple[tuple[str, str], ...] = ()
    """Paths and texts of context from other files for a prompt around the cursor, the best last."""
    n_predict: int = -1
    """Most tokens of the text; -1 for as many as the context holds.  0 counts as 1, as llama-server
    has it: the next request finds the prompt in the KV cache."""
    stops: tuple[str, ...] = ()
    """Strings that end the text before them."""
    n_indent: int = 0
    """Least indentation, in characters, of the text's second and later lines; a line of less ends
    it.  As in llama.cpp an empty line has none."""
    t_max_predict_ms: int = 0
    """The first line end so many milliseconds after the first token ends the text; 0: none does."""
    n_probs: int = 0
    """Of how many tokens at each place the result tells the probabilities; 0 for no scores."""
    has_infill_sampler: bool = False
    """Whether llama.cpp's sampler ``infill`` chooses among the tokens that the others leave."""
    is_streamed: bool = False
    """Whether the text is told as it grows, by :class:`TextGrew`."""
    is_fitted: bool = False
    """Whether a text around the cursor is ended and fitted as an editor's completion is: at the end
    of its block or where the model stops being sure, without loops, and without what stands after
    the cursor already."""
    n_texts: int = 1
    """Most texts: others than the first begin with another token that is likely, if there is one.
    """

    def empty(self, reason: FinishReason, source: AnswerSource = "model") -> TextResult:
        """Return a result without text."""
        return TextResult(
            completion_id=self.completion_id,
            text="",
            finish_reason=reason,
            stats=RequestStats(),
            source=source,
        )


AnyRequest: TypeAlias = CompletionRequest | EditRequest | TextRequest
"""A request of any kind."""


@dataclass(frozen=True, kw_only=True)
class PlacedRequest(Generic[Q_co]):
    """A request with the text that it was made in.  It does not cross the seam.

    ``text`` is the document with the request's edit and the other cells of its notebook; ``cursor``
    is the cursor in it.
    """

    plain: Q_co
    """The request as it crosses the seam, without texts."""
    text: str
    cursor: int
    path: str
    repo_name: str
    language_id: str
    file: str
    workspace: str = ""

    @property
    def uri(self) -> str:
        """The document's URI."""
        return self.plain.uri

    @property
    def completion_id(self) -> str:
        """The id of the answer's text."""
        return self.plain.completion_id

    @property
    def is_editors(self) -> bool:
        """Whether an editor made it, and not a program."""
        return self.plain.origin == "editor"

    def settings_over(self, settings: Settings) -> Settings:
        """Return the settings that hold for the request, see :meth:`Request.settings_over`."""
        return self.plain.settings_over(settings, self.language_id)

    @cached_property
    def prefix(self) -> str:
        """The text before the cursor."""
        return self.text[: self.cursor]

    @cached_property
    def suffix(self) -> str:
        """The text after the cursor."""
        return self.text[self.cursor :]


AnyPlaced: TypeAlias = PlacedRequest[Request[Any]]
"""A placed request of any kind."""

PlacedCompletion: TypeAlias = PlacedRequest[CompletionRequest]


class _Layers(NamedTuple):
    """What a request's settings are resolved from, as a key; ``base`` counts by its identity."""

    base: Settings
    overrides: dict[str, SettingValue]
    language_id: str
    own: dict[str, SettingValue]
    n_deadlines: int

    def __hash__(self) -> int:
        return hash((id(self.base), self.language_id))

    def __eq__(self, other: object) -> bool:
        # As text, since True, 1 and 1.0 are equal, and not all of them are right.
        return (
            isinstance(other, _Layers)
            and self.base is other.base
            and repr(self[1:]) == repr(other[1:])
        )


@lru_cache(maxsize=64)
def _resolved(layers: _Layers) -> Settings:
    """Resolve settings once: each key asks several times, and few documents differ in them."""
    settings = for_language(_over(layers.base, layers.overrides), layers.language_id)
    found = _over(settings, layers.own)
    if layers.n_deadlines == 1:
        return found
    return replace(found, deadline_ms=min(MAX_INT, layers.n_deadlines * found.deadline_ms))


def _over(base: Settings, given: dict[str, SettingValue]) -> Settings:
    allowed = {name: value for name, value in given.items() if name in PER_REQUEST}
    resolution = resolve([allowed], base=base) if allowed else Resolution(base)
    left_out = [*given.keys() - allowed.keys(), *(each.message for each in resolution.problems)]
    if left_out:
        logger.debug("left out of a request's settings: %.500r", left_out)
    return resolution.settings
