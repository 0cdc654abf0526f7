"""What the requests and answers of all kinds have, and a request placed in its document.

A request is a cursor, options, and what its kind adds; the kinds are in :mod:`completion`,
:mod:`edit` and :mod:`text` beside this module.  :class:`PlacedRequest` does not cross the seam.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar

import msgspec

from speclsp.seam.documents import TextEdit
from speclsp.seam.statistics import RequestStats
from speclsp.settings import MAX_INT, PER_REQUEST, Settings, SettingValue
from speclsp.settings_resolution import Resolution, for_language, resolve

logger = logging.getLogger(__name__)

Origin = Literal["editor", "program"]
"""Who made a request: an editor, whose newer requests supersede older ones, or a program, which
gets the model's answer to each."""

FinishReason = Literal["stop", "length", "deadline", "cancelled"]
"""Why a completion ended: a stop rule or end token, ``n_predict``, the deadline or the latency
budget, or a cancel."""

AnswerSource = Literal["model", "memory", "filter"]
"""Where an answer comes from: the model, earlier answers, or a rule that skips the request."""

R = TypeVar("R", bound="Result")
"""A kind's answer."""

Q = TypeVar("Q", bound="Request[Any]")
"""A kind's request."""

Q_co = TypeVar("Q_co", bound="Request[Any]", covariant=True)


class Result(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """What the answers to all kinds of requests have.

    It is written as an array: its class's name, then the fields in order.
    """

    stats: RequestStats
    source: AnswerSource = "model"

    @property
    def is_empty(self) -> bool:
        """Whether it suggests nothing."""
        raise NotImplementedError

    def timed(self, *, ms_queue: float, ms_total: float) -> Self:
        """Return the result with the times in the queue and in all."""
        stats = replace(self.stats, ms_queue=ms_queue, ms_total=ms_total)
        return msgspec.structs.replace(self, stats=stats)


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
