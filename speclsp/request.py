"""The plain data that crosses the completer seam.

Everything here except :class:`PlacedRequest` is frozen, made of strings, numbers, and tuples or
dicts of them, and survives a round trip through ``msgspec.json``, so that the completer may run in
this process or in another one.  The events have tags, by which a reader tells them apart.

Counting, as in the project's statistics everywhere:

* ``n_drafted``: draft tokens that a target pass verified.
* ``n_accepted``: those of them that became output.
* ``n_target_passes``: target decodes that emit at least one token, the last prefill included.
* times are milliseconds of wall clock.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import msgspec

from speclsp.settings import PER_REQUEST, Settings
from speclsp.settings_resolution import for_language, resolve

FinishReason = Literal["stop", "length", "deadline", "cancelled"]
"""Why a completion ended: a stop rule or end token, ``n_predict``, the deadline or the latency
budget, or a cancel."""

Origin = Literal["editor", "program"]
"""Who made a request: an editor, whose newer requests supersede older ones, or a program, which
gets the model's answer to each."""

Trigger = Literal["automatic", "invoked"]
"""Whether an editor asked while the user typed, or the user asked."""

AnswerSource = Literal["model", "memory", "filter"]
"""Where an answer comes from: the model, earlier answers, or a rule that skips the request."""

EngineState = Literal["loading", "ready", "unloaded", "off", "failed"]
"""``unloaded``: the weights were freed after idle time; the next request loads them."""

SettingValue = bool | int | float | str | list[str] | dict[str, dict[str, bool | int | float | str]]

LogLevel = Literal["debug", "info", "warning", "error"]

R = TypeVar("R", bound="Result")
"""A kind's answer."""
Q = TypeVar("Q", bound="Request[Any]")
"""A kind's request."""
Q_co = TypeVar("Q_co", bound="Request[Any]", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One version of an open document.  ``path`` is relative to its workspace folder, with slashes.

    ``repo_name`` is the repository's name in prompts, and ``file`` the absolute path of the
    document's file, "" where it has none.  ``workspace`` names its folder to an engine on another
    machine, which has no folders; "" elsewhere.
    """

    uri: str
    path: str
    language_id: str
    version: int
    text: str
    file: str = ""
    repo_name: str = ""
    workspace: str = ""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """``text`` in place of the characters ``start`` to ``end`` (code points) of a document."""

    start: int
    end: int
    text: str

    def applied_to(self, text: str) -> str:
        """Return a document's text after the edit."""
        return text[: self.start] + self.text + text[self.end :]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedText:
    """The accepted part ``text`` of a suggestion, and ``before``, the last lines before it."""

    path: str
    file: str
    before: str
    text: str
    uri: str = ""
    """The document's; empty for a text without one."""
    workspace: str = ""
    """As of a :class:`Document`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceFolder:
    """A folder whose files feed the drafters.  ``name`` is the repository name in prompts."""

    root: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterStats:
    """One drafter's counts.

    A target pass verifies as much of what is proposed as the decision takes: ``n_drafts`` and
    ``n_drafted`` count what was verified.  Alternatives count as parts of one draft.
    """

    n_begin_calls: int = 0
    n_draft_calls: int = 0
    n_accept_calls: int = 0
    n_proposed_drafts: int = 0
    n_proposed: int = 0
    """Tokens that it proposed."""
    n_drafts: int = 0
    n_accepted_drafts: int = 0
    """Drafts of which at least one token was accepted."""
    n_drafted: int = 0
    n_accepted: int = 0
    n_drafted_at: tuple[int, ...] = ()
    """Draft tokens verified at each position of a draft, from the first."""
    n_accepted_at: tuple[int, ...] = ()
    ms_begin: float = 0.0
    ms_draft: float = 0.0
    ms_accept: float = 0.0
    ms_decode: float = 0.0
    """Of these, the time of the drafter's own model inside llama_decode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """The cost of one request's text; alternatives to it are not counted.

    ``n_single_passes`` and ``ms_single_passes`` are the target passes after the prefill that
    carried no draft: their mean time is T(1), against which the speed-up is measured.
    """

    n_prompt: int = 0
    n_prompt_evaluated: int = 0
    n_predicted: int = 0
    n_target_passes: int = 0
    n_decode_passes: int = 0
    """Target passes after the prefill; the prefills that emitted are the difference."""
    n_prefill_predicted: int = 0
    """Tokens that the prefill's last batch emitted: one, and the accepted tokens of its draft."""
    n_drafted: int = 0
    n_accepted: int = 0
    n_draft_passes: int = 0
    """Target passes that verified a draft."""
    n_tried: int = 0
    """Draft positions at which the target's choice was compared with the draft: the accepted ones,
    and the first wrong one of each draft that was not right to its end."""
    n_draft_depths: int = 0
    """Sum of the drafts' depths: a draft without branches is as deep as it is long."""
    n_single_passes: int = 0
    drafters: dict[str, DrafterStats] = field(default_factory=dict)
    ms_queue: float = 0.0
    ms_tokenize: float = 0.0
    ms_prompt: float = 0.0
    """Until the first token."""
    ms_network: float = 0.0
    """Of these, what a remote engine does not account for: the network and the server's queue."""
    ms_predict: float = 0.0
    """Everything after the prefill: drafting, verifying, sampling, stop rules."""
    ms_draft: float = 0.0
    ms_verify: float = 0.0
    """Target passes after the prefill, with filling their batches and reading their logits."""
    ms_decode: float = 0.0
    """Of these, the time inside llama_decode; a draft model's is in its drafter's counts."""
    ms_single_passes: float = 0.0
    ms_draft_passes: float = 0.0
    """Target passes after the prefill that verified a draft, with drafting."""
    ms_total: float = 0.0


Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Starts and ends in characters of a text, rising."""


def ranges_from(ranges: Ranges, start: int) -> Ranges:
    """Return the ranges of the text that is left from character ``start`` on."""
    return tuple((max(0, a - start), b - start) for a, b in ranges if b > start)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedText:
    """A text to insert at the cursor, with an id by which it can be accepted."""

    completion_id: str
    text: str = ""
    n_replaced: int = 0
    """Characters (code points) after the cursor, on its line, that ``text`` replaces."""
    mean_logprob: float | None = None
    """Mean over the text's tokens of the natural logarithm of their probability by the model, at
    temperature 1; None where it was not computed."""
    finish_reason: FinishReason = "stop"
    drafted: Ranges = ()
    """The parts of ``text`` that accepted draft tokens gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the answers to all kinds of requests have."""

    stats: RequestStats
    source: AnswerSource = "model"

    @property
    def is_empty(self) -> bool:
        """Whether it suggests nothing."""
        raise NotImplementedError

    def timed(self, *, ms_queue: float, ms_total: float) -> Self:
        """Return the result with the times in the queue and in all."""
        return replace(self, stats=replace(self.stats, ms_queue=ms_queue, ms_total=ms_total))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionResult(Result):
    """The text that was generated, and others in its place."""

    generated: GeneratedText
    alternatives: tuple[GeneratedText, ...] = ()
    """Further texts, all different, by falling ``mean_logprob``.  ``generated`` comes before them
    all: a request for one text gets it."""
    withheld: bool = False
    """Whether there was a text too uncertain to be shown: ``generated`` is empty but for that
    text's ``mean_logprob``."""

    @property
    def is_empty(self) -> bool:
        """Whether it suggests nothing."""
        return not self.generated.text


StopKind = Literal["end", "word", "limit", "none"]
"""What ended a text: an end token, a stop string, or a limit of tokens, time or indentation;
``none`` where nothing was generated, or the request was cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredToken:
    """A token with its log-probability by the model, at temperature 1 (natural logarithm)."""

    token: int
    logprob: float
    best: tuple[tuple[int, float], ...] = ()
    """The most probable tokens at its place and their log-probabilities, the best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextResult(Result):
    """The text that the model wrote, up to what ended it, and not fitted to any document."""

    completion_id: str
    finish_reason: FinishReason
    text: str
    tokens: tuple[int, ...] = ()
    """As they were generated, an end token included."""
    prompt: tuple[int, ...] = ()
    """The prompt's tokens, as it was laid out."""
    scores: tuple[ScoredToken, ...] = ()
    """Of ``tokens``, where they were asked for."""
    stopped_by: StopKind = "none"
    stopping_word: str = ""
    """The stop string that ended the text, which is not part of it."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no text."""
        return not self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A token with which the answer to an edit request leaves the text as it is."""

    line: str
    """The line of the answer that the token is in, masked."""
    probability: float
    """By the model, at temperature 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditResult(Result):
    """The next edit of a document, or none."""

    completion_id: str
    finish_reason: FinishReason
    edit: TextEdit | None = None
    """The smallest replacement that covers all hunks."""
    hunks: tuple[TextEdit, ...] = ()
    """The lines that change, as they are shown; whole lines, rising."""
    is_far: bool = False
    """Whether the edit begins or ends more than two lines from the cursor."""
    probability: float | None = None
    """Of the first of ``divergences``; None where it was not computed."""
    divergences: tuple[Divergence, ...] = ()
    """One for each hunk of the answer, also where the edit is withheld."""
    withheld: str = ""
    """Why an edit that the model proposed is not shown (:data:`speclsp.edits.edit.Withheld`), or
    why there was no request of the model: ``refused``, ``secret``."""

    @property
    def is_empty(self) -> bool:
        """Whether it suggests nothing."""
        return self.edit is None


# Requests: a cursor, options, and what each kind adds.


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentCursor:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(DocumentCursor, Generic[R]):
    """What the requests of all kinds have: a cursor and options.  ``R`` is the kind's answer.

    A newer request of an editor supersedes older ones of the same :attr:`key`.
    """

    kind: ClassVar[str]
    urgency: ClassVar[int]
    """Editors' requests of greater urgency come first; programs' have none, 0."""

    completion_id: str = ""
    """The id of the answer's text; the completer makes one where it is empty."""
    settings: dict[str, SettingValue] = field(default_factory=dict)
    """Settings of this request alone, of ``PER_REQUEST``, by canonical name."""
    overrides: dict[str, SettingValue] = field(default_factory=dict)
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

    def empty(self, reason: FinishReason, source: AnswerSource = "model") -> R:
        """Return an answer without text."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(Request[CompletionResult]):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest(Request[EditResult]):
    """A request for the next edit around the cursor."""

    kind: ClassVar[str] = "edit"
    urgency: ClassVar[int] = 1

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest(Request[TextResult]):
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

    def empty(self, reason: FinishReason, source: AnswerSource = "model") -> TextResult:
        """Return a result without text."""
        return TextResult(
            completion_id=self.completion_id,
            text="",
            finish_reason=reason,
            stats=RequestStats(),
            source=source,
        )


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
        """Return the settings that hold for the request.

        Its own settings come before its language's, those before its folder's, and those before
        ``settings``.  Other settings than ``PER_REQUEST`` and wrong values are left out: requests
        come from other machines, too.
        """
        # msgspec refuses lone surrogates, which a client's JSON may have.
        overrides, own = json.dumps(self.plain.overrides), json.dumps(self.plain.settings)
        return _settings_over(_Identity(settings), overrides, self.language_id, own)

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


@dataclass(frozen=True, slots=True, eq=False)
class _Identity:
    """Settings as a key: they are the same only if they are the same object."""

    settings: Settings

    def __hash__(self) -> int:
        return id(self.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.settings is other.settings


@lru_cache(maxsize=64)
def _settings_over(base: _Identity, overrides: str, language_id: str, own: str) -> Settings:
    """Resolve settings once: each key asks several times, and few documents differ in them."""
    settings = for_language(_resolved(overrides, base.settings), language_id)
    return _resolved(own, settings)


def _resolved(chosen: str, base: Settings) -> Settings:
    given: dict[str, SettingValue] = json.loads(chosen)
    allowed = {name: value for name, value in given.items() if name in PER_REQUEST}
    return resolve([allowed], base=base).settings if allowed else base


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Milliseconds over ``n`` samples."""

    n: int = 0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats:
    """The contents of the project index."""

    n_files: int = 0
    n_tokens: int = 0
    n_skipped: int = 0
    building: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EditStats:
    """Sums over a session's next edits, which are in no other sum."""

    n_asked: int = 0
    n_proposed: int = 0
    """Edits that requests were answered with."""
    n_kept: int = 0
    """Requests that were answered with what is left of an edit of which the user typed a part."""
    n_shown: int = 0
    n_accepted: int = 0
    n_declined: int = 0
    withheld: dict[str, int] = field(default_factory=dict)
    """By reason: how many requests were answered without an edit."""
    totals: RequestStats = field(default_factory=RequestStats)
    answer: Percentiles = field(default_factory=Percentiles)
    """From the request to the edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStats:
    """Sums over a session, from ``initialize`` to ``exit``."""

    n_requests: int = 0
    n_completions: int = 0
    """Requests that the engine answered with text."""
    n_empty: int = 0
    n_cancelled: int = 0
    n_failed: int = 0
    n_withheld: int = 0
    """Requests whose text was too uncertain to be shown; they count as empty, too."""
    n_memory: int = 0
    """Requests that were answered with what is left of an earlier answer."""
    n_filtered: int = 0
    """Automatic requests that a rule answered empty, without the model."""
    n_coalesced: int = 0
    """Requests that joined a running generation."""
    n_prefetches: int = 0
    """Generations for what follows a suggestion on screen, finished or not."""
    n_prefetches_used: int = 0
    """Those that answered a request."""
    prefetch: RequestStats = field(default_factory=RequestStats)
    """Their cost, which is not in ``totals``."""
    n_shown: int = 0
    """Suggestions that were on screen for half a second, or have ended; each counts once."""
    n_accepted_items: int = 0
    """Those of which the end was accepted."""
    n_partially_accepted: int = 0
    """Those of which only words or lines were."""
    n_chars_accepted: int = 0
    totals: RequestStats = field(default_factory=RequestStats)
    edits: EditStats = field(default_factory=EditStats)
    latency: dict[str, Percentiles] = field(default_factory=dict)
    """By stage: ``answer``, from a request's arrival at the window's server to a suggestion that
    was not given before, which is what users are told; queue, tokenize, prompt, draft, verify,
    predict and total, in the engine; and ``memory``, of those requests that needed no model."""
    answer_ms: tuple[float, ...] = ()
    """The times of which ``answer`` has the percentiles, the oldest first."""
    index: IndexStats = field(default_factory=IndexStats)
    state: EngineState = "loading"
    engine: str = ""
    """The remote engine's kind and host; empty where the model is on this machine."""
    lacks: tuple[str, ...] = ()
    """What the remote engine cannot do."""
    sent_drafts: str = ""
    """Which drafts the remote engine is sent; empty for none."""
    model: str = ""
    draft_model: str = ""
    next_edits: str = ""
    """The format of next edits and the model that proposes them, or why there are none."""
    layers: dict[str, int] = field(default_factory=dict)
    """Layers of the target model per device name."""
    n_ctx: int = 0
    n_idle_evaluated: int = 0
    """Prompt tokens evaluated in idle time for later requests; in no other sum."""
    is_idle: bool = True
    """Whether nothing is left to do, idle work included."""
    verify_ms: tuple[tuple[int, float], ...] = ()
    """(k, T(k) in milliseconds): target passes over k tokens, as measured."""


# Events of the completer.


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """The target model as its user knows it, for status displays."""

    title: str
    """For example ``Qwen2.5-Coder 7B Q4_K_M``."""
    layers: dict[str, int] = field(default_factory=dict)
    """Layers per device name."""
    is_trial: bool = False
    """Whether it is the small embedded model, which no one should judge completions by."""
    shortfall: str = ""
    """What did not fit the memory, with the remedy; empty where everything did."""


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """An event is written as an array: its class's name, then the fields in order."""


class StateChanged(_Event, frozen=True, kw_only=True):
    """The engine changed its state; ``message`` may say why."""

    state: EngineState
    message: str = ""
    model: LoadedModel | None = None
    """What is loaded, or was until it was unloaded."""


class Progress(_Event, frozen=True, kw_only=True):
    """Progress of long work; its begin, reports and end have one ``token``."""

    token: str
    stage: Literal["begin", "report", "end"]
    title: str = ""
    message: str = ""
    percentage: int | None = None
    cancellable: bool = False
    """Whether the user may cancel it; set in the event that begins it."""


class LogLine(_Event, frozen=True, kw_only=True):
    """A line for the log."""

    level: LogLevel
    message: str


class Problem(_Event, frozen=True, kw_only=True):
    """A problem that the user must see once, and its remedy."""

    message: str
    remedy: str = ""


class TextGrew(_Event, frozen=True, kw_only=True):
    """The text of a request that is streamed has grown: ``text`` stands at character ``start``.

    The result has the whole text: an event may be lost.
    """

    completion_id: str
    start: int
    text: str


Event = StateChanged | Progress | LogLine | Problem | TextGrew
