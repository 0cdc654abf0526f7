"""A deterministic stand-in for a target model: exact, tiny, without llama.cpp.

Its logits are a pure function of the tokens in its cache, so decoding one token at a time and many
in a batch agree to the last bit.  It refuses what the real one refuses.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from speclsp.backends.kv_states import KvState
from speclsp.backends.llama.tree_branches import check_path, tree_branches
from speclsp.decoding.target import Logits
from speclsp.drafting.drafter import MOST_DRAFTED
from speclsp.errors import DecodeError, EngineUnavailableError

Prediction: TypeAlias = Callable[[Sequence[int]], Sequence[float] | NDArray[np.float64]]
"""Takes all tokens up to a position, returns the logits of what follows, n_vocab of them."""


class ScriptedTarget:
    """A :class:`~speclsp.decoding.target.Target` whose next-token logits come from a function."""

    def __init__(
        self,
        predict: Prediction,
        n_vocab: int,
        *,
        n_ctx: int = 4096,
        n_batch: int = 2048,
        n_ubatch: int = 512,
        n_branches: int = 16,
    ) -> None:
        self._predict = predict
        self._cached: list[int] = []
        self.n_vocab = n_vocab
        self.n_ctx = n_ctx
        self.n_ctx_train = n_ctx
        self.n_batch = n_batch
        self.n_ubatch = n_ubatch
        self.n_branches = n_branches
        self._tree: tuple[Sequence[int], Sequence[int]] = ((), ())
        self._forks: list[tuple[int, list[int]]] = []
        self.description = "scripted"
        self.layers = {"scripted": 1}
        self.supports_rollback = True
        self.max_draft = MOST_DRAFTED
        self.ns_native = 0
        self.n_tokens_evaluated = 0
        self.n_decodes = 0
        self.closed = False

    @property
    def cached(self) -> Sequence[int]:
        """The token ids in the cache, by position."""
        return self._cached

    def truncate(self, n_tokens: int) -> None:
        """Keep the first ``n_tokens`` positions."""
        self._tree = ((), ())
        self._forks = []
        del self._cached[n_tokens:]

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Append ``tokens`` and return the logits of the last ``n_logits`` of them."""
        self._tree = ((), ())
        self._forks = []
        self._check(tokens, n_logits)
        self.n_decodes += 1
        self.n_tokens_evaluated += len(tokens)
        logits = np.zeros((n_logits, self.n_vocab), dtype=np.float32)
        first_row = len(tokens) - n_logits
        for idx, token in enumerate(tokens):
            self._cached.append(int(token))
            if idx >= first_row:
                logits[idx - first_row] = self._predict(self._cached)
        return logits

    def decode_tree(
        self, pending: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
    ) -> Logits:
        """Append ``pending``; return what follows it and what follows each node of the tree."""
        self._tree = ((), ())
        self._forks = []
        tree_branches(parents, self.n_branches)
        self._check([*pending, *tokens], len(tokens) + 1)
        self.n_decodes += 1
        self.n_tokens_evaluated += len(pending) + len(tokens)
        self._cached.extend(map(int, pending))
        logits = np.zeros((1 + len(tokens), self.n_vocab), dtype=np.float32)
        logits[0] = self._predict(self._cached)
        texts: list[list[int]] = []
        for node, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
            texts.append([*(self._cached if parent < 0 else texts[parent]), int(token)])
            logits[1 + node] = self._predict(texts[node])
        self._tree = (tuple(tokens), tuple(parents))
        return logits

    def keep_path(self, path: Sequence[int]) -> None:
        """Append the nodes ``path`` of the last tree."""
        tokens, parents = self._tree
        check_path(path, parents)
        self._tree = ((), ())
        self._cached.extend(int(tokens[node]) for node in path)

    @property
    def n_free(self) -> int:
        """Positions that hold nothing."""
        return self.n_ctx - len(self._cached) - sum(len(own) for _, own in self._forks)

    def fork(self, lengths: Sequence[int]) -> None:
        """Begin forks that share the first positions of the cache."""
        self._tree = ((), ())
        if len(lengths) >= self.n_branches or not all(0 < n <= len(self._cached) for n in lengths):
            raise ValueError(f"forks at {list(lengths)} of {len(self._cached)} positions")
        self._forks = [(length, []) for length in lengths]

    def decode_forks(self, forks: Sequence[int], tokens: Sequence[int]) -> Logits:
        """Append a token to each of ``forks``; return what follows them."""
        if not 0 < len(tokens) <= self.n_free or len(set(forks)) != len(tokens):
            raise ValueError(f"{len(tokens)} tokens for forks {list(forks)}, {self.n_free} free")
        self.n_decodes += 1
        self.n_tokens_evaluated += len(tokens)
        logits = np.zeros((len(tokens), self.n_vocab), dtype=np.float32)
        for row, (fork, token) in enumerate(zip(forks, tokens, strict=True)):
            n_shared, own = self._forks[fork]
            own.append(int(token))
            logits[row] = self._predict([*self._cached[:n_shared], *own])
        return logits

    def drop_forks(self) -> None:
        """Forget all forks."""
        self._forks = []

    @property
    def state_size(self) -> int:
        """Bytes of :meth:`save_state`: four for each token."""
        return 4 * len(self._cached)

    def save_state(self) -> KvState | None:
        """Return a copy of the cache."""
        data = np.asarray(self._cached, dtype=np.int32).view(np.uint8)
        return KvState(tuple(self._cached), data)

    def restore_state(self, state: KvState) -> bool:
        """Make the cache hold ``state``."""
        self._tree = ((), ())
        self._cached[:] = state.tokens
        return True

    def close(self) -> None:
        """Forget everything, as a real target frees its memory."""
        self.closed = True
        self._cached.clear()

    def _check(self, tokens: Sequence[int], n_logits: int) -> None:
        if self.closed:
            raise EngineUnavailableError("The model was closed.")
        if not 0 < len(tokens) <= self.n_batch or len(self._cached) + len(tokens) > self.n_ctx:
            raise ValueError(
                f"{len(tokens)} tokens do not fit a batch of {self.n_batch}, or a context of "
                f"{self.n_ctx} that holds {len(self._cached)}"
            )
        if not 0 <= n_logits <= len(tokens):
            raise ValueError(f"{n_logits} rows of logits of {len(tokens)} tokens")
        if not all(0 <= token < self.n_vocab for token in tokens):
            self._cached.clear()
            raise DecodeError("a token id is outside the vocabulary.")


def following(script: Sequence[int], n_vocab: int, *, n_prompt: int = 0) -> Prediction:
    """Predict ``script[i]`` at position ``n_prompt + i``, and its last token from its end on."""

    def predict(cached: Sequence[int]) -> Sequence[float]:
        place = min(max(len(cached) - n_prompt, 0), len(script) - 1)
        logits = [0.0] * n_vocab
        logits[script[place]] = 10.0
        return logits

    return predict


def hashing(n_vocab: int, *, order: int = 3, sharpness: float = 3.0) -> Prediction:
    """Predict from a hash of the last ``order`` tokens: random-looking, and the same every time.

    ``sharpness`` is the logits' standard deviation.
    """

    def predict(cached: Sequence[int]) -> NDArray[np.float64]:
        generator = np.random.default_rng([token + 1 for token in cached[-order:]])
        return generator.standard_normal(n_vocab) * sharpness

    return predict
