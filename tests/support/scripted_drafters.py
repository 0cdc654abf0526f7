"""Drafters that behave in one extreme way each, for the tests of losslessness."""

from collections.abc import Sequence

import numpy as np

from speclsp.drafting.cost import AskingCost
from speclsp.drafting.drafter import NO_DRAFT, Draft, DraftContext


class SilentBase:
    """Does nothing and remembers the calls."""

    name = "scripted"

    def __init__(self) -> None:
        self.contexts: list[DraftContext] = []
        self.accepts: list[int] = []

    def begin(self, context: DraftContext) -> None:
        self.contexts.append(context)

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        return NO_DRAFT

    def accept(self, n_accepted: int) -> None:
        self.accepts.append(n_accepted)


class ModelBase(SilentBase):
    """Stands for a draft model; what it takes is ``cost``, None for not measured."""

    ns_native = 0
    n_most = 3
    cost: AskingCost | None = None
    lacking_s = 0.0

    @property
    def token_cost(self) -> AskingCost | None:
        return self.cost

    def asking_cost(self, generated: Sequence[int]) -> AskingCost | None:
        return self.cost and AskingCost(self.cost.token_s, self.lacking_s)


class EmptyDrafter(SilentBase):
    """Never drafts."""

    name = "empty"


class OracleDrafter(SilentBase):
    """Knows the output: everything it drafts is right."""

    name = "oracle"

    def __init__(self, output: Sequence[int], n_draft: int = 8) -> None:
        super().__init__()
        self._output = tuple(output)
        self._n_draft = n_draft

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        start = len(generated)
        return Draft(self._output[start : start + min(self._n_draft, n_max)], "oracle")


class RandomDrafter(SilentBase):
    """Drafts random tokens, 0 to ``n_draft`` of them."""

    name = "random"

    def __init__(self, n_vocab: int, seed: int, n_draft: int = 8) -> None:
        super().__init__()
        self._generator = np.random.default_rng(seed)
        self._n_vocab = n_vocab
        self._n_draft = n_draft

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        n_tokens = min(int(self._generator.integers(self._n_draft + 1)), n_max)
        return Draft(tuple(self._generator.integers(self._n_vocab, size=n_tokens).tolist()))


class AdversarialDrafter(SilentBase):
    """Knows the output and drafts it wrong at changing places, right on both sides of them."""

    name = "adversarial"

    def __init__(self, output: Sequence[int], n_vocab: int, n_draft: int = 8) -> None:
        super().__init__()
        self._output = tuple(output)
        self._n_vocab = n_vocab
        self._n_draft = n_draft
        self._n_calls = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        self._n_calls += 1
        start = len(generated)
        tokens = list(self._output[start : start + min(self._n_draft, n_max)])
        wrong = self._n_calls % self._n_draft
        if wrong < len(tokens):
            tokens[wrong] = (tokens[wrong] + 1) % self._n_vocab
        return Draft(tuple(tokens), "adversary")


class ScriptedDrafter(SilentBase):
    """Takes one answer per call from a list, a draft or an exception; then it drafts nothing."""

    def __init__(self, answers: Sequence[Draft | Exception], name: str = "scripted") -> None:
        super().__init__()
        self.name = name
        self._answers = list(answers)

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        if not self._answers:
            return NO_DRAFT
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer
