"""A remote engine in place of a loaded model: its vocabulary, prompts and generations.

Prompts, anchors and stop rules are the same as for a local model.  Where the remote model's
vocabulary is unknown, :class:`StandInVocabulary` estimates its tokens, and prompts are sent as
text.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from speclsp.backends.draft_model import LoadedTarget
from speclsp.backends.http.credentials import api_key
from speclsp.backends.http.messages import (
    Piece,
    RemoteModel,
    RemoteParams,
    RemotePrompt,
    RemoteStats,
)
from speclsp.backends.weights import MAX_PROMPT, Loader, Log, Progress, Tokenizer, Weights
from speclsp.common_ends import common_head
from speclsp.decoding.speculate import Generation
from speclsp.decoding.target import Logits
from speclsp.decoding.token_scores import TokenScores
from speclsp.drafting.drafter import TokenArray
from speclsp.errors import DecodeInterruptedError, NotFimModelError, RemoteError, SettingsError
from speclsp.model_title import model_title
from speclsp.printable import printable
from speclsp.prompt.families import FIELDS_ONLY, family_for, prompt_text, special_names_of_model
from speclsp.prompt.healing import TokenPrefixes
from speclsp.prompt.prompt import FimPrompt, FimText
from speclsp.seam.request import FinishReason
from speclsp.seam.statistics import RequestStats
from speclsp.settings import Settings
from speclsp.vocabulary_protocol import FimTokenIds

if TYPE_CHECKING:  # without a remote engine nothing needs an HTTP client
    from speclsp.backends.http.engine import HttpEngine


_PIECE: Final = re.compile(r" ?\w{1,8}|\s+| ?[^\w\s]{1,3}")
"""A token where the vocabulary is unknown.  Python, TypeScript and Lua have 0.95 to 1.19 times as
many of these as tokens of Qwen2, StarCoder and Llama 3, and 0.83 to 0.92 times those of
DeepSeek-Coder."""

_SAMPLE: Final = "def area_of(self, box):\n    return box.width * box.height  # in m²\n"
"""A server that tokenises this text as a GGUF does has the GGUF's vocabulary."""
_CONTEXT_SHARE: Final = 0.75
"""Share of the context that prompts and answers may take where tokens are estimated: the estimate
is up to a sixth too low."""

MakeEngine = Callable[[Settings, str], "HttpEngine"]
"""Makes the engine of settings and an API key; it connects later."""


class StandInVocabulary:
    """Estimates the tokens of an unknown vocabulary: words, runs of white space and of symbols.

    A piece gets its id when it is first seen; ids are valid in this process only.
    """

    n_tokens = 0
    """0, since the tokens cannot be listed: an id exists only once its piece was seen."""
    metadata: Mapping[str, str] = {}
    bos = None
    end_tokens: frozenset[int] = frozenset()
    fim = FimTokenIds()

    def __init__(self, fingerprint: str, is_special: Callable[[str], bool]) -> None:
        """``is_special`` tells whether the model has a special token of this name."""
        self.fingerprint = fingerprint
        self._is_special = is_special
        self._lock = threading.Lock()
        self._pieces: list[bytes] = []
        self._ids: dict[str, int] = {}
        self._specials: dict[str, int | None] = {}

    def tokenize(self, text: str) -> TokenArray:
        """Return the estimated tokens of a text, shape [n]."""
        return np.array([self.id_of(piece) for piece in _PIECE.findall(text)], dtype=np.int32)

    def id_of(self, piece: str) -> int:
        """Return the id of a token by its text; that of a special token by its name."""
        token = self._ids.get(piece)
        return self._new(piece, piece.encode("utf-8", "replace")) if token is None else token

    def special(self, text: str) -> int | None:
        """Return the id of a special token by its name; None where the model has none."""
        if text not in self._specials:
            # Callers also ask for SentencePiece's spelling, with a leading space.
            is_known = not text.startswith("\u2581") and self._is_special(text)
            self._specials[text] = self._new(text, b"") if is_known else None
        return self._specials[text]

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; empty for special tokens."""
        return self._pieces[token]

    def _new(self, piece: str, data: bytes) -> int:
        with self._lock:
            if piece not in self._ids:
                self._pieces.append(data)
                self._ids[piece] = len(self._pieces) - 1
            return self._ids[piece]


class RemoteTarget:
    """Implements :class:`~speclsp.backends.draft_model.LoadedTarget` as far as prompts need it.

    It returns no logits: :meth:`generate` replaces the decoding loop.  ``cached`` are the tokens
    that are probably in the server's KV cache.
    """

    ns_native = 0

    def __init__(
        self,
        engine: HttpEngine,
        model: RemoteModel,
        tokenizer: Tokenizer,
        *,
        sends_ids: bool,
    ) -> None:
        """With ``sends_ids`` prompts are sent as token ids instead of text."""
        self._engine = engine
        self._tokenizer = tokenizer
        self._sends_ids = sends_ids
        self._is_interrupted: Callable[[], bool] = _never
        share = _CONTEXT_SHARE if tokenizer.is_estimate else 1.0
        self.n_ctx = int(share * model.n_ctx) or 2 * MAX_PROMPT
        self.n_batch = self.n_ubatch = self.n_ctx
        self.n_vocab = tokenizer.vocabulary.n_tokens
        self.cached: list[int] = []
        self.prefills = model.kind == "llama-server" and bool(sends_ids or tokenizer.family.names)
        """Whether the server evaluates a prompt before it is asked for an answer."""

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Cancel a request once ``predicate`` is true; it is called at least every 50 ms."""
        self._is_interrupted = predicate or _never

    max_draft: Final = 0
    """The server drafts, if anyone does."""

    def truncate(self, n_tokens: int) -> None:
        """Note that the next prompt differs after its first ``n_tokens`` tokens."""
        del self.cached[n_tokens:]

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Have the server evaluate more of a prompt in idle time; returns no logits.

        Raises :class:`~speclsp.errors.DecodeInterruptedError`.
        """
        assert not n_logits
        prompt = [*self.cached, *tokens]
        text, ids = self._forms(prompt)
        if self.prefills:
            remote_prompt = RemotePrompt(prefix="", suffix="", text=text, tokens=ids)
            self._engine.prefill(remote_prompt, self._is_interrupted)
        if self._is_interrupted():
            raise DecodeInterruptedError("the evaluation of a prompt was interrupted.")
        self.cached = prompt
        return np.empty((0, self.n_vocab), dtype=np.float32)

    def close(self) -> None:
        """End all requests and connections."""
        self._engine.close()

    def remote_prompt(self, prompt: FimPrompt, text: FimText) -> RemotePrompt:
        """Return a prompt, which was laid out for ``text``, in the forms that servers take."""
        prefix = text.prefix[len(text.prefix) - prompt.n_prefix_chars :]
        as_text, ids = self._forms(prompt.tokens)
        chunks = (laid_out.chunk for laid_out in prompt.excerpt.chunks.chunks)
        return RemotePrompt(
            prefix=_unix(prefix),
            suffix=_unix(prompt.excerpt.suffix.text),
            path=text.path,
            chunks=tuple((chunk.path, _unix(chunk.text)) for chunk in chunks),
            text=as_text,
            tokens=ids,
        )

    def text_prompt(self, text: str, tokens: Sequence[int]) -> RemotePrompt:
        """Return a prompt of another kind, which ``tokens`` are, or their estimate."""
        known = () if self._tokenizer.is_estimate else tuple(tokens)
        return RemotePrompt(prefix=text, suffix="", text=text, tokens=known)

    def request(
        self, prompt: FimPrompt, text: FimText, params: RemoteParams
    ) -> tuple[str, dict[str, Any]]:
        """Return the path and the JSON that :meth:`generate` sends."""
        return self._engine.request(self.remote_prompt(prompt, text), params)

    def generate(
        self,
        prompt: Sequence[int],
        remote_prompt: RemotePrompt,
        params: RemoteParams,
        *,
        stop: Callable[[int], bool],
        interrupted: Callable[[], FinishReason | None],
        aborted: Callable[[], FinishReason | None],
        deadline_s: float,
        clock: Callable[[], float],
        scores: TokenScores,
    ) -> Generation:
        """Continue a prompt; see :func:`speclsp.decoding.speculate.generate` for the arguments.

        ``prompt`` are the tokens of ``remote_prompt``, or their estimate.

        Each piece of the stream counts as its tokens; the stream is closed where ``stop`` says so.
        ``aborted`` is called while the engine thread waits for the server.
        Raises :class:`~speclsp.errors.RemoteError` where the server does not answer at all.
        """
        started = clock()
        n_known = common_head(self.cached, prompt)
        self.truncate(n_known)
        emitted: list[int] = []
        typed_rest = params.begins_with
        finish = interrupted()
        if finish is None:
            stream = self._engine.stream(remote_prompt, params, aborted, deadline_s)
            with closing(stream) as pieces:
                for piece in pieces:
                    _check_beginning(piece.text, typed_rest)
                    finish = self._take(piece, typed_rest, emitted, scores, stop) or interrupted()
                    typed_rest = typed_rest[len(piece.text) :]
                    if finish is not None:
                        break
            if finish is None and self._engine.stats.is_cut:
                finish = interrupted() or "deadline"
        stats = RemoteStats()
        if emitted:
            stats = self._engine.stats
            self.cached = [*prompt, *emitted]
        if finish is None:
            is_long = max(len(emitted), stats.n_generated) >= params.n_predict
            finish = interrupted() or ("length" if is_long else "stop")
        return Generation(
            tokens=tuple(emitted),
            finish_reason=finish,
            stats=_request_stats(
                stats,
                n_prompt=len(prompt),
                n_known=n_known,
                n_emitted=len(emitted),
                ms_total=1000 * (clock() - started),
            ),
        )

    def _take(
        self,
        piece: Piece,
        typed_rest: str,
        emitted: list[int],
        scores: TokenScores,
        stop: Callable[[int], bool],
    ) -> FinishReason | None:
        """Append a piece's tokens; return ``stop`` where they end the text.

        A server tells the probability of the whole piece.  Where the piece begins with typed text,
        ``typed_rest``, the logarithm counts by the share of the other characters.
        """
        tokens = self._tokens_of(piece)
        n_new = len(piece.text) - len(typed_rest)
        logprobs = piece.logprobs
        if len(logprobs) != len(tokens):
            mean = math.fsum(logprobs) / len(logprobs) if logprobs else math.nan
            logprobs = (mean,) * len(tokens)
        if typed_rest and n_new > 0:
            logprobs = tuple(logprob * n_new / len(piece.text) for logprob in logprobs)
        for token, logprob in zip(tokens, logprobs, strict=True):
            emitted.append(token)
            scores.logprobs.append(logprob)
            if stop(token):
                return "stop"
        return None

    def _tokens_of(self, piece: Piece) -> Sequence[int]:
        """Return a piece as tokens of the vocabulary; one token where that is an estimate."""
        vocabulary = self._tokenizer.vocabulary
        if isinstance(vocabulary, StandInVocabulary):
            return (vocabulary.id_of(piece.text),)
        own = [token for token in piece.tokens if 0 <= token < vocabulary.n_tokens]
        spelled = b"".join(map(vocabulary.piece, own))
        if own and spelled == piece.text.encode("utf-8", "replace"):
            return own
        tokens: list[int] = vocabulary.tokenize(piece.text).tolist()
        return tokens

    def _forms(self, tokens: Sequence[int]) -> tuple[str, tuple[int, ...]]:
        """Return a prompt as text and as token ids, one of them or both empty."""
        if self._sends_ids:
            return "", tuple(tokens)
        family = self._tokenizer.family
        if not family.names:
            return "", ()
        return prompt_text(tokens, self._tokenizer.vocabulary, family), ()


def remote_target(target: LoadedTarget) -> RemoteTarget | None:
    """Return ``target`` if it is a remote engine, else None."""
    return target if isinstance(target, RemoteTarget) else None


class RemoteLoader:
    """Implements :class:`~speclsp.backends.weights.Loader` for remote engines.

    Without ``engine_url`` it calls ``local``, which also loads the vocabulary where ``model`` names
    a GGUF of the remote model.
    """

    def __init__(self, local: Loader, make_engine: MakeEngine | None = None) -> None:
        self._local = local
        self._make_engine = make_engine or _make_engine
        self._engine: HttpEngine | None = None
        self._made_for: tuple[str, ...] = ()
        self._connected: tuple[RemoteModel, bool] | None = None

    def tokenizer(self, settings: Settings) -> Tokenizer:
        """Connect, and return the vocabulary or its estimate.

        Raises :class:`~speclsp.errors.RemoteError`, and what the local loader does.
        """
        if not settings.engine_url:
            self.close()
            return self._local.tokenizer(settings)
        engine = self._engine_of(settings)
        model = engine.connect()
        if settings.model:
            tokenizer = self._local.tokenizer(settings)
            is_same = _has_vocabulary(engine, model, tokenizer)
            sends_ids = model.takes_tokens and bool(is_same)
        if not settings.model or is_same is False:
            # FIM tokens of another model would be any text to it.
            tokenizer, sends_ids = _stand_in(engine, model, settings), False
        self._connected = model, sends_ids
        return tokenizer

    def weights(
        self, settings: Settings, tokenizer: Tokenizer, progress: Progress, log: Log
    ) -> Weights:
        """Return the engine that :meth:`tokenizer` connected to."""
        if not settings.engine_url:
            return self._local.weights(settings, tokenizer, progress, log)
        assert self._engine is not None
        assert self._connected is not None
        engine, self._engine = self._engine, None
        model, sends_ids = self._connected
        target = RemoteTarget(engine, model, tokenizer, sends_ids=sends_ids)
        host = settings.engine_host
        name = model_title(model.name) if model.name.endswith(".gguf") else model.name
        name = printable(name)
        is_other = bool(settings.model) and tokenizer.is_estimate
        lacks = tuple(_lacks(engine, model, tokenizer, sends_ids=sends_ids))
        log("info", f"remote engine: {name}, {model.kind} at {host}; {'; '.join(lacks)}.")
        return Weights(
            target=target,
            draft=None,
            description=f"{name} ({model.kind} at {host})",
            title=f"{name} at {host}",
            # A short first prompt pays only where idle time can evaluate the rest.
            supports_rollback=target.prefills,
            engine=f"{model.kind} at {host}",
            heals=model.constrains,
            fields_only="" if model.takes_text else model.kind,
            find_token=cache(partial(_special, engine)) if tokenizer.is_estimate else None,
            problems=[_other_vocabulary(settings, name)] if is_other else [],
            lacks=lacks,
        )

    def close(self) -> None:
        """Close an engine that has not connected yet, even while it connects."""
        self._made_for = ()
        if (engine := self._engine) is not None:
            engine.close()

    def _engine_of(self, settings: Settings) -> HttpEngine:
        """Return the engine that failed to connect before, whose pauses grow, or a new one."""
        key = api_key(settings)
        made_for = (
            settings.engine_url,
            settings.engine_kind,
            settings.engine_model,
            settings.engine_ca_file,
            key,
        )
        if self._engine is None or self._made_for != made_for:
            self.close()
            self._engine = self._make_engine(settings, key)
            self._made_for = made_for
        return self._engine


def _make_engine(settings: Settings, key: str) -> HttpEngine:
    from speclsp.backends.http.engine import HttpEngine  # noqa: PLC0415

    return HttpEngine(
        settings.engine_url,
        settings.engine_kind,
        key,
        model=settings.engine_model,
        read_key=lambda: api_key(settings),
        ca_file=settings.engine_ca_file,
    )


def _has_vocabulary(engine: HttpEngine, model: RemoteModel, tokenizer: Tokenizer) -> bool | None:
    """Return whether the server has the GGUF's vocabulary; None where it does not tokenise.

    Token ids of another model would mean another text to the server.
    """
    vocabulary = tokenizer.vocabulary
    if model.n_vocab not in (0, vocabulary.n_tokens):
        return False
    tokens = engine.tokenize(_SAMPLE)
    return None if tokens is None else bool(tokens == vocabulary.tokenize(_SAMPLE).tolist())


def _special(engine: HttpEngine, text: str) -> int | None:
    """Return a special token's id, 0 where the server does not tell; None where it has none."""
    tokens = engine.tokenize(text, special=True) or [0]
    return tokens[0] if len(tokens) == 1 else None


def _other_vocabulary(settings: Settings, name: str) -> SettingsError:
    return SettingsError(
        f"The remote engine runs {name}, whose vocabulary is not that of "
        f"{Path(settings.model).name}: it is estimated.",
        remedy="Name a GGUF of the remote engine's model in `model`, or clear `model`.",
    )


def _stand_in(engine: HttpEngine, model: RemoteModel, settings: Settings) -> Tokenizer:
    """Return an estimate of the model's vocabulary, with the model's special tokens.

    These come from the setting ``fim_template``, the model's name, or the server's tokenizer.
    """
    names = special_names_of_model(model.name)

    def is_special(name: str) -> bool:
        if settings.fim_template.strip():
            return True
        return name in names if names else len(engine.tokenize(name, special=True) or ()) == 1

    vocabulary = StandInVocabulary(f"estimate {settings.engine_url} {model.name}", is_special)
    family = FIELDS_ONLY
    if model.takes_text:
        with suppress(NotFimModelError):
            family = family_for(vocabulary, settings.fim_template)
    return Tokenizer(
        vocabulary=vocabulary,
        family=family,
        prefixes=TokenPrefixes(vocabulary),
        is_estimate=True,
    )


def _lacks(
    engine: HttpEngine,
    model: RemoteModel,
    tokenizer: Tokenizer,
    *,
    sends_ids: bool,
) -> Iterator[str]:
    """Yield what the engine cannot do, for statistics and ``speclsp doctor``."""
    if engine.warning:
        yield engine.warning.rstrip(".")
    yield "no drafts of this machine"
    if not model.constrains:
        yield "no token healing"
    elif tokenizer.is_estimate:
        yield "token healing by words, since the vocabulary is not known here"
    if not sends_ids and tokenizer.family.names:
        yield "prompts as text, whose tokens are estimated"
    elif not sends_ids:
        yield "prompts of prefix and suffix, which the server lays out"
    if not model.logprobs:
        yield "no probabilities, so that `min_probability` ends no text"
    yield "one suggestion for each request"


def _check_beginning(piece: str, typed_rest: str) -> None:
    """Raise RemoteError for a piece that does not continue with the rest of the typed text."""
    if not (piece.startswith(typed_rest) or typed_rest.startswith(piece)):
        raise RemoteError(
            "The remote engine's answer does not begin with what was typed.",
            remedy="Set `healing` to false: this server does not heed the grammar of a request.",
        )


def _request_stats(
    stats: RemoteStats,
    *,
    n_prompt: int,
    n_known: int,
    n_emitted: int,
    ms_total: float,
) -> RequestStats:
    """Return the server's counts, or our own where it sends none."""
    ms_prompt = stats.ms_first or ms_total
    n_evaluated = n_prompt - n_known
    if stats.n_prompt:
        n_prompt, n_evaluated = stats.n_prompt, stats.n_prompt - stats.n_cached
    n_predicted = stats.n_generated or n_emitted
    n_passes = max(1, n_predicted - stats.n_accepted) if n_predicted else 0
    return RequestStats(
        n_prompt=n_prompt,
        n_prompt_evaluated=n_evaluated,
        n_predicted=n_predicted,
        n_target_passes=n_passes,
        n_decode_passes=max(0, n_passes - 1),
        n_prefill_predicted=min(1, n_predicted),
        n_drafted=stats.n_drafted,
        n_accepted=stats.n_accepted,
        ms_prompt=ms_prompt,
        ms_network=stats.ms_network,
        ms_predict=ms_total - ms_prompt,
        ms_total=ms_total,
    )


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _never() -> bool:
    return False
