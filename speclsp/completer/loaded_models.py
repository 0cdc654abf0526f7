"""What the engine thread has loaded: vocabulary, weights, drafters, and the prompts' windows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from speclsp.completer.buffers import OpenBuffers
from speclsp.completer.completion import Workbench
from speclsp.completer.events import EventQueue
from speclsp.completer.proposing import Proposing
from speclsp.drafting.proposer import Proposer
from speclsp.engine.models import Loader, Weights, Words
from speclsp.fim.prompt import PromptWindow
from speclsp.settings import Settings

MAX_WINDOWS = 256
"""Documents whose prompt windows are remembered."""


class LoadedModels:
    """The models of one engine.  Belongs to the engine thread.

    ``on_words`` is told when a vocabulary with other tokens was loaded.
    """

    def __init__(
        self,
        loader: Loader,
        buffers: OpenBuffers,
        events: EventQueue,
        on_words: Callable[[Words], None],
        *,
        persist: bool,
    ) -> None:
        self._loader = loader
        self._buffers = buffers
        self._events = events
        self._on_words = on_words
        self._words: Words | None = None
        self._weights: Weights | None = None
        self._proposer: Proposer | None = None
        self._proposing = Proposing(events, persist=persist)
        self._windows: OrderedDict[str, PromptWindow] = OrderedDict()
        self._reported: set[str] = set()

    @property
    def weights(self) -> Weights | None:
        """The loaded models, None where there are none."""
        return self._weights

    def load(self, settings: Settings, progress: Callable[[float], bool]) -> Weights:
        """Load what the settings name.  Raises a ``ModelError`` where the target cannot be used."""
        words = self._loader.words(settings)
        self._take_words(words)
        weights = self._loader.weights(settings, words, progress, self._events.log)
        self._weights = weights
        self._windows.clear()
        self.make_proposer(settings)
        for problem in weights.problems:
            self._events.problem(problem.message, problem.remedy)
        return weights

    def free(self, why: str) -> None:
        """Free the weights, if there are any; the vocabulary stays."""
        weights, self._weights = self._weights, None
        self._proposer = None
        if weights is not None:
            weights.close()
            self._events.log("info", f"freed the model's memory ({why}).")

    def close(self) -> None:
        """Save what was learned, and free the weights."""
        self._proposing.close()
        self.free("closed")

    def make_proposer(self, settings: Settings) -> None:
        """Make what drafts anew from the settings; without weights there is nothing."""
        self._proposer = None
        if self._weights is not None and self._words is not None:
            self._proposer = self._proposing.make(settings, self._words, self._weights)

    def workbench(self) -> Workbench:
        """Return what a completion works with; there must be weights."""
        assert self._words is not None
        assert self._weights is not None
        while len(self._windows) > MAX_WINDOWS:
            self._windows.popitem(last=False)
        return Workbench(
            words=self._words,
            weights=self._weights,
            proposer=self._proposer,
            buffers=self._buffers,
            windows=self._windows,
            report=lambda problem: self._report_once(problem.message, problem.remedy),
        )

    def completed(self) -> Callable[[], None] | None:
        """Note that a completion was made; returns what to do in idle time, if anything."""
        return self._proposing.save if self._proposing.completed() else None

    def _take_words(self, words: Words) -> None:
        old = self._words
        self._words = words
        if old is None or old.vocabulary.fingerprint != words.vocabulary.fingerprint:
            self._buffers.forget_tokens()
            self._on_words(words)

    def _report_once(self, message: str, remedy: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            self._events.problem(message, remedy)
