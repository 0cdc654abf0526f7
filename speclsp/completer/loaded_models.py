"""What the engine thread has loaded: vocabulary, weights, drafters, and the prompts on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from speclsp.completer.completion import Workbench
from speclsp.completer.document_tokens import DocumentTokens
from speclsp.completer.events import EventQueue
from speclsp.completer.prompts import Prompts
from speclsp.completer.proposing import make_proposer
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.proposer import Proposer
from speclsp.engine.models import Loader, Tokenizer, Weights
from speclsp.settings import Settings

PAUSE_S: Final = 0.25
"""Seconds without a call after which idle time begins: most keystrokes come sooner, and chunks
from other files were chosen meanwhile."""

_MIB: Final = 1 << 20


class Calls(Protocol):
    """What may come while the engine is idle."""

    def waiting(self) -> bool:
        """Whether somebody waits."""

    def wait_quiet(self, seconds: float) -> bool:
        """Wait until so long nothing came; whether it was so."""


class LoadedModels:
    """The models of one engine.  Belongs to the engine thread.

    ``on_words`` is told when a vocabulary with other tokens was loaded.
    """

    def __init__(
        self,
        loader: Loader,
        tokens: DocumentTokens,
        events: EventQueue,
        on_tokenizer: Callable[[Tokenizer], None],
    ) -> None:
        self._loader = loader
        self._tokens = tokens
        self._events = events
        self._on_tokenizer = on_tokenizer
        self._tokenizer: Tokenizer | None = None
        self._weights: Weights | None = None
        self._proposer: Proposer | None = None
        self._acceptance = AcceptanceTable()
        self._prompts: Prompts | None = None
        self._n_idle_evaluated = 0
        self._reported: set[str] = set()

    @property
    def weights(self) -> Weights | None:
        """The loaded models, None where there are none."""
        return self._weights

    @property
    def prompts(self) -> Prompts | None:
        """The prompts on the loaded target, None where there is none."""
        return self._prompts

    @property
    def n_idle_evaluated(self) -> int:
        """Prompt tokens evaluated in idle time since the start."""
        prompts = self._prompts
        return self._n_idle_evaluated + (prompts.n_idle_evaluated if prompts is not None else 0)

    def load(self, settings: Settings, progress: Callable[[float], bool]) -> Weights:
        """Load what the settings name.  Raises a ``ModelError`` where the target cannot be used."""
        tokenizer = self._loader.tokenizer(settings)
        self._take_tokenizer(tokenizer)
        weights = self._loader.weights(settings, tokenizer, progress, self._events.log)
        self._weights = weights
        # How often drafts are right depends on the target and the draft model, and on the text at
        # hand: counts of other texts made drafts worse.
        self._acceptance = AcceptanceTable()
        self._prompts = Prompts(
            weights.target, settings.cache_ram * _MIB if weights.supports_rollback else 0
        )
        self.make_proposer(settings)
        for problem in weights.problems:
            self._events.problem(problem.message, problem.remedy)
        return weights

    def free(self, why: str) -> None:
        """Free the weights, if there are any; the vocabulary stays."""
        weights, self._weights = self._weights, None
        self._n_idle_evaluated = self.n_idle_evaluated
        self._prompts = None
        self._proposer = None
        if weights is not None:
            weights.close()
            self._events.log("info", f"freed the model's memory ({why}).")

    def close(self) -> None:
        """Free the weights."""
        self.free("closed")

    def make_proposer(self, settings: Settings) -> None:
        """Make what drafts anew from the settings; without weights there is nothing."""
        self._proposer = None
        if self._weights is not None and self._tokenizer is not None:
            self._proposer = make_proposer(settings, self._weights, self._acceptance, self._events)

    def workbench(self) -> Workbench:
        """Return what a completion works with; there must be weights."""
        assert self._tokenizer is not None
        assert self._weights is not None
        assert self._prompts is not None
        return Workbench(
            tokenizer=self._tokenizer,
            weights=self._weights,
            proposer=self._proposer,
            tokens=self._tokens,
            prompts=self._prompts,
            report=lambda problem: self._report_once(problem.message, problem.remedy),
        )

    def settle_prompts(self, queue: Calls) -> bool:
        """Evaluate what the next prompts should find, in a pause; whether nothing is left to do.

        Any call that waits interrupts that within one decode.
        """
        weights, prompts = self._weights, self._prompts
        if weights is None or prompts is None or not prompts.has_plan():
            return True
        if not queue.wait_quiet(PAUSE_S):
            return False
        weights.set_interrupt(queue.waiting)
        try:
            return prompts.settle(queue.waiting)
        finally:
            weights.set_interrupt(None)

    def _take_tokenizer(self, tokenizer: Tokenizer) -> None:
        old = self._tokenizer
        self._tokenizer = tokenizer
        if old is None or old.vocabulary.fingerprint != tokenizer.vocabulary.fingerprint:
            self._tokens.forget()
            self._on_tokenizer(tokenizer)

    def _report_once(self, message: str, remedy: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            self._events.problem(message, remedy)
