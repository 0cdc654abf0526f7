"""The drafter that runs a small model."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from speclsp.backends.draft_text import TextCrossing
from speclsp.backends.kv_states import KvStates
from speclsp.common_ends import common_head
from speclsp.decoding.sampling import LogitRow
from speclsp.decoding.target import Logits, Target
from speclsp.decoding.token_scores import log_sum_exp
from speclsp.drafting.acceptance import SMALL_MODEL
from speclsp.drafting.cost import AskingCost, VerifyCurve, lower_quartile
from speclsp.drafting.drafter import NO_DRAFT, Draft, DraftContext
from speclsp.errors import DecodeError, SettingsError
from speclsp.seam.events import LogLevel
from speclsp.settings import DraftMode

Log = Callable[[LogLevel, str], None]

_N_STEPS = 15
"""Latest times of a draft token, whose lower quartile counts."""

_N_WINDOW_STEPS = 4
"""Steps in which the window of a prompt beyond the context moves on: three quarters of the context
then stay in the KV cache, or are evaluated again, once for many tokens."""

COSTLY = 0.2
"""T_draft / T_target from which on drafts seldom pay: with 70 % of the draft tokens right, the
expected speed-up of drafts of three is then 1.0 where T(4) = 1.6 T(1)."""
_N_IDLE_CHUNK = 128
"""Most tokens of a decode in idle time: an interrupted decode is lost."""
_LEAST_TIMED = 16
"""Fewest tokens of a decode whose time counts as that of a prompt."""
_N_TIMED = 3
"""Single tokens that are timed in idle time."""


def _never() -> bool:
    return False


class LoadedTarget(Target, Protocol):
    """A model's context whose decodes can be interrupted and whose memory can be freed."""

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop a running decode as soon as ``predicate`` is true; None never stops it."""

    def close(self) -> None:
        """Free the model and its context."""


class DraftModelDrafter:
    """Implements :class:`speclsp.drafting.drafter.Drafter` with a small model.

    It drafts the most probable tokens at every temperature of the target: up to 0.4, drafts that
    are drawn at random and accepted with min(1, p/q) (Leviathan et al. 2023) gained nothing.

    Drafts carry the model's own probabilities, softmax over its vocabulary.
    From ``n_min`` tokens on, and where the request gives the times of passes, a draft ends where
    the product of the probabilities falls below the cost of a further token, here and in the
    target's batch: a token is accepted only if all before it are.  AdaEDL (Agrawal et al. 2024,
    arXiv:2410.18351) and SpecDec++ (Huang et al. 2024, arXiv:2405.19715) also let the draft
    model's confidence set a draft's length; the threshold here is the measured time.

    The KV cache is kept between requests: a shared beginning and accepted draft tokens are never
    evaluated again.  Prompts of other documents are saved in at most ``n_state_bytes``.
    :meth:`settle` evaluates prompts in idle time, and measures what the model takes.
    Of a text that is longer than the context, the model reads the end.

    ``crossing`` is given for a model with another vocabulary: the model's text and drafts are then
    in its own tokens, and cross to the target's as text.  ``has_gpu``: there are devices to put its
    layers on.  ``share`` is its size in that of the target.
    Half of its many attributes are settings, the rest one text and the times that it took.
    """

    name = "draft"

    def __init__(
        self,
        model: LoadedTarget,
        *,
        n_max: int,
        n_min: int,
        p_min: float,
        n_target_vocab: int,
        log: Log | None = None,
        n_state_bytes: int = 0,
        crossing: TextCrossing | None = None,
        has_gpu: bool = False,
        share: float = 0.0,
    ) -> None:
        self._model = model
        self._crossing = crossing
        self._has_gpu = has_gpu
        self._share = share
        self._states = KvStates(model, n_state_bytes)
        self._n_max = n_max
        self._n_min = n_min
        self._p_min = p_min
        # Ids that only one of the two models has are never drafted and never evaluated.
        self._n_ids = model.n_vocab if crossing else min(n_target_vocab, model.n_vocab)
        self._end_tokens: frozenset[int] = frozenset()
        self._log = log
        self._interrupted: Callable[[], bool] = _never
        self._text: list[int] = []
        self._n_prompt = 0
        self._steps_s: deque[float] = deque(maxlen=_N_STEPS)
        self._prompts_s: deque[float] = deque(maxlen=_N_STEPS)
        """Seconds of a prompt's token, by decode."""
        self._is_cost_told = self._is_cut_told = False
        self._single_s = 0.0
        self._least_path = 0.0
        # The model reads the text from token _start on, and the first _n_in_step tokens of that
        # are known to be in its cache.
        self._start = self._n_in_step = 0

    @property
    def model(self) -> LoadedTarget:
        """The draft model's context."""
        return self._model

    @property
    def crosses_by_text(self) -> bool:
        """Whether the model has another vocabulary than the target."""
        return self._crossing is not None

    @property
    def ns_native(self) -> int:
        """Nanoseconds spent in the model's decode since it was loaded."""
        return self._model.ns_native

    @property
    def n_most(self) -> int:
        """Most tokens of a draft."""
        return self._n_max

    @property
    def token_cost(self) -> AskingCost | None:
        """What a draft token takes; None before that and a prompt's time were measured."""
        if not self._steps_s or not self._prompts_s:
            return None
        return AskingCost(lower_quartile(self._steps_s))

    def asking_cost(self, generated: Sequence[int]) -> AskingCost | None:
        """Return what :meth:`draft` would take; None if that is not known, or it drafts nothing."""
        cost = self.token_cost
        if cost is None or not self._follow(generated):
            return None
        # The text's last token counts as the draft's first.
        n_lacking = max(0, self._n_lacking(self._text[self._start :]) - 1)
        return AskingCost(cost.token_s, n_lacking * lower_quartile(self._prompts_s))

    def pays(self, curve: VerifyCurve, target_s: float) -> bool:
        """Whether its drafts save time at all, as far as is known; ``target_s`` is T(1).

        False where the times of either model are not known.
        """
        cost = self.token_cost
        if cost is None or target_s <= 0.0:
            return False
        return cost.best_gain(SMALL_MODEL, self._n_max, curve, target_s) > 0.0

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop drafting as soon as ``predicate`` is true; None never stops it.

        It is called between decodes, and by another thread during a decode.
        """
        self._interrupted = predicate or _never
        self._model.set_interrupt(predicate)

    def begin(self, context: DraftContext) -> None:
        """Start a request.  Nothing is evaluated before the first :meth:`draft`."""
        crossing = self._crossing
        self._text = crossing.begin(context.prompt) if crossing else list(context.prompt)
        self._end_tokens = context.end_tokens
        self._single_s = context.single_s
        curve = context.verify_curve
        self._least_path = curve.least_slope if curve is not None else 0.0
        self._n_prompt = len(self._text)
        self._start = self._n_in_step = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Draft at most ``n_max`` tokens.

        Returns no draft where the text contains unknown ids, and after an interrupt.
        """
        if not self._follow(generated):
            return NO_DRAFT
        text = self._text
        # The last draft token is never evaluated, so it needs no room in the context.
        n_room = self._model.n_ctx - (len(text) - self._start) + 1
        n_tokens = min(n_max, self._n_max, n_room)
        if n_tokens <= 0 or n_tokens < self._n_min or not text:
            return NO_DRAFT
        try:
            draft = self._propose(text[self._start :], n_tokens)
        except DecodeError as error:  # an interrupt, or a failure that the target need not share
            self._n_in_step = 0
            if self._log is not None and not self._interrupted():
                self._log("warning", f"the draft model drafted nothing: {error}")
            return NO_DRAFT
        if self._crossing is not None:
            tokens, probabilities = self._crossing.back(draft.tokens, draft.probabilities)
            draft = Draft(tokens[:n_max], draft.source, probabilities=probabilities[:n_max])
        if not draft.tokens or len(draft.tokens) < self._n_min:
            return NO_DRAFT
        return draft

    def costly(self, mode: DraftMode, curve: VerifyCurve, target_s: float) -> SettingsError | None:
        """Return a problem where a draft token takes long beside ``target_s``, T(1) of the target.

        None if that is not known yet (``target_s`` 0), and from the second time on.
        """
        if self._is_cost_told or not self._steps_s or target_s <= 0.0:
            return None
        step_s = lower_quartile(self._steps_s)
        ratio = step_s / target_s
        if ratio <= COSTLY:
            return None
        self._is_cost_told = True
        asked = "seldom" if self.pays(curve, target_s) else "never"
        follows = (
            f"`mode` auto {asked} asks it"
            if mode == "auto"
            else f"in `mode` {mode} it is asked all the same"
        )
        return SettingsError(
            f"the draft model takes {step_s * 1e3:.2f} ms for a token and the target "
            f"{target_s * 1e3:.2f} ms: {ratio:.2f} of it, where more than {COSTLY} seldom pays, so "
            f"{follows}.",
            remedy=costly_remedy(mode, has_gpu=self._has_gpu),
        )

    def large(self, mode: DraftMode) -> SettingsError | None:
        """Return a problem where its size lets expect that it costs more than it saves."""
        if self._share <= COSTLY or not self._n_max:
            return None
        follows = (
            "`mode` auto will probably never ask it"
            if mode == "auto"
            else f"in `mode` {mode} its drafts will probably cost more than they save"
        )
        return SettingsError(
            f"the draft model has {self._share:.2f} of the target's size, so that a token of it "
            f"takes about as much of a pass: {follows}.",
            remedy=costly_remedy(mode, has_gpu=self._has_gpu),
        )

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Do nothing: the next :meth:`draft` finds accepted tokens in the cache."""

    def close(self) -> None:
        """Free the draft model."""
        self._model.close()

    def settle(self, prompt: Sequence[int], wanted: Callable[[], bool]) -> bool:
        """Evaluate a prompt in idle time, between requests; return whether nothing is left to do.

        Its times are measured first.  ``wanted`` is asked before each further decode whether to go
        on.
        """
        self.begin(DraftContext(prompt=prompt))
        if self._n_max < 1 or not self._follow(()):
            return True
        model, text = self._model, self._text[self._start :]
        if not self._has_ids(text) or not self._goes_on(wanted):
            return True
        self._states.prepare(text)
        n_kept = len(text) - self._n_lacking(text)
        try:
            while not self._interrupted():
                if self._steps_s and (n_kept == len(text) or not self._goes_on(wanted)):
                    return True
                model.truncate(n_kept)
                piece = text[n_kept : n_kept + min(model.n_ubatch, _N_IDLE_CHUNK)]
                if piece:
                    self._evaluate(piece, 0)
                n_kept += len(piece)
                for _ in range(0 if self._steps_s else _N_TIMED):
                    model.truncate(n_kept - 1)
                    self._step(text[n_kept - 1])
        except DecodeError:
            return not self._interrupted()  # a failure is not tried again
        return False

    def _goes_on(self, wanted: Callable[[], bool]) -> bool:
        """Whether to evaluate more in idle time: also until the times are known."""
        return self.token_cost is None or wanted()

    def _follow(self, generated: Sequence[int]) -> bool:
        """Take what was emitted since; return whether the text is one that the model can read."""
        text = self._text
        if self._crossing is None:
            text.extend(generated[len(text) - self._n_prompt :])
        else:
            n_same = self._crossing.follow(text, generated)
            if n_same is None:
                return False
            self._n_in_step = min(self._n_in_step, max(0, n_same - self._start))
        self._move_window(len(text))
        return bool(text)

    def _has_ids(self, tokens: Sequence[int]) -> bool:
        return all(token < self._n_ids for token in tokens)

    def _n_lacking(self, text: Sequence[int]) -> int:
        """Return how many tokens of a text its cache lacks."""
        n_kept = self._n_in_step
        return len(text) - n_kept - common_head(self._model.cached[n_kept:], text[n_kept:])

    def _evaluate(self, piece: Sequence[int], n_logits: int) -> Logits:
        """Evaluate part of a text and measure the time."""
        before = self._model.ns_native
        logits = self._model.decode(piece, n_logits)
        if len(piece) >= _LEAST_TIMED:
            self._prompts_s.append((self._model.ns_native - before) / 1e9 / len(piece))
        return logits

    def _move_window(self, n_text: int) -> None:
        """Move the window on if a text of ``n_text`` tokens exceeds the context."""
        n_ctx = self._model.n_ctx
        start = 0
        if n_text > n_ctx:
            step = max(1, n_ctx // _N_WINDOW_STEPS)
            n_over = n_text + min(self._n_max, step) - n_ctx
            start = min(-(-n_over // step) * step, n_text - 1)
            if not self._is_cut_told and self._log is not None:
                self._is_cut_told = True
                self._log(
                    "info",
                    f"the draft model reads the end of prompts of more than {n_ctx} tokens, the "
                    "size of its context (`spec_draft_ctx_size`); this one has "
                    f"{self._n_prompt}",
                )
        if start != self._start:
            self._start, self._n_in_step = start, 0

    def _propose(self, text: list[int], n_tokens: int) -> Draft:
        logits = self._catch_up(text)
        tokens: list[int] = []
        probabilities: list[float] = []
        path = 1.0
        while logits is not None:
            row = logits[-1, : self._n_ids]
            token, probability = _best(row)
            if not probability > 0.0 or probability < self._p_min or self._ends(token):
                break
            probabilities.append(probability)
            path *= probability
            tokens.append(token)
            if len(tokens) == n_tokens or self._interrupted():
                break
            if len(tokens) >= self._n_min and path < self._worth_a_step():
                if len(tokens) == 1 and self._steps_s:
                    # No step was measured: forget one, so that drafting resumes.
                    self._steps_s.popleft()
                break
            logits = self._step(token)
        if not tokens:
            return NO_DRAFT
        return Draft(tuple(tokens), source="draft", probabilities=tuple(probabilities))

    def _ends(self, token: int) -> bool:
        """Whether a draft ends before ``token``."""
        if self._crossing is not None:
            return self._crossing.ends(token, self._end_tokens)
        return token in self._end_tokens

    def _worth_a_step(self) -> float:
        """Return the path probability below which a further token does not pay; 0 if unknown."""
        if self._least_path <= 0.0 or self._single_s <= 0.0 or not self._steps_s:
            return self._least_path
        return self._least_path + lower_quartile(self._steps_s) / self._single_s

    def _step(self, token: int) -> Logits:
        """Evaluate a draft token and measure the time."""
        before = self._model.ns_native
        logits = self._model.decode([token], 1)
        self._steps_s.append((self._model.ns_native - before) / 1e9)
        return logits

    def _catch_up(self, text: list[int]) -> Logits | None:
        """Evaluate ``text`` and return its last row of logits; None if interrupted."""
        model = self._model
        if not self._has_ids(text[self._n_in_step :]):
            return None
        if self._n_in_step == 0:
            self._states.prepare(text[: max(0, self._n_prompt - self._start)])
        # The last token is always evaluated, for its logits.
        n_kept = len(text) - max(1, self._n_lacking(text))
        model.truncate(n_kept)
        self._n_in_step = n_kept
        logits: Logits | None = None
        while self._n_in_step < len(text):
            if self._interrupted():
                return None
            piece = text[self._n_in_step : self._n_in_step + model.n_ubatch]
            n_done = self._n_in_step + len(piece)
            logits = self._evaluate(piece, 1 if n_done == len(text) else 0)
            self._n_in_step = n_done
        return logits


def costly_remedy(mode: DraftMode, *, has_gpu: bool) -> str:
    """Return what to do about a draft model that takes too long beside the target."""
    remedies = [
        "leave it out (`spec_draft_model`)",
        "name one of a tenth of the target's size or less",
    ]
    if has_gpu:
        remedies.append("put all its layers on the GPU (`spec_draft_ngl`)")
    if mode != "auto":
        remedies.insert(0, "set `mode` to `auto`, which asks it where that pays")
    first, *others = remedies
    return f"{first[0].upper()}{first[1:]}, {', '.join([*others[:-1], 'or ' + others[-1]])}."


def _best(row: LogitRow) -> tuple[int, float]:
    """Return the most probable token and its probability; 0 if the logit is not finite."""
    token = int(row.argmax())
    logit = float(row[token])
    if not math.isfinite(logit):
        return token, 0.0
    return token, math.exp(min(0.0, logit - log_sum_exp(row, token)))
