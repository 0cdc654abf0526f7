"""The documents' prompts on one target: KV cache reuse, and evaluation in idle time."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from speclsp.backends.kv_states import KvStates
from speclsp.common_ends import common_head
from speclsp.decoding.target import Target
from speclsp.errors import DecodeInterruptedError
from speclsp.prompt.chunks import (
    NO_CHUNKS,
    ContextChunk,
    EncodeChunk,
    ShownChunks,
    renewed_chunks,
    shown_chunks,
)
from speclsp.prompt.document_prompts import ChunkSource, DocumentPrompts, PromptQuestion
from speclsp.prompt.prompt import FimPrompt

MAX_DOCUMENTS = 256
"""Documents whose prompts are remembered."""

N_IDLE_CHUNK: Final = 128
"""Maximum tokens of a decode in idle time: an interrupted decode is lost."""


class TargetPrompts:
    """The prompts of all documents on one target.  Belongs to the target's thread."""

    def __init__(
        self, target: Target, n_state_bytes: int, n_idle_chunk: int = N_IDLE_CHUNK
    ) -> None:
        """``n_state_bytes`` limits the saved KV states, ``n_idle_chunk`` a decode in idle time."""
        self._target = target
        self._n_idle_chunk = n_idle_chunk
        self._states = KvStates(target, n_state_bytes)
        self._documents: OrderedDict[str, DocumentPrompts] = OrderedDict()
        self._edit_chunks: dict[str, ShownChunks] = {}
        """The context from other files in the documents' last prompts for next edits."""
        self._asked: PromptQuestion | None = None
        self.n_idle_evaluated = 0
        """Tokens that were evaluated in idle time."""

    def copy(self) -> TargetPrompts:
        """Return a copy on the same target, whose use does not change the documents' prompts."""
        copied = copy.copy(self)
        documents = ((uri, copy.copy(prompts)) for uri, prompts in self._documents.items())
        copied._documents = OrderedDict(documents)  # noqa: SLF001  of the same class
        return copied

    def prompt(self, question: PromptQuestion) -> FimPrompt:
        """Lay out a prompt, and restore the saved KV state that shares most with it."""
        document = self._documents.setdefault(question.uri, DocumentPrompts())
        self._documents.move_to_end(question.uri)
        while len(self._documents) > MAX_DOCUMENTS:
            self._documents.popitem(last=False)
        prompt = document.prompt(question, self._states.n_reusable)
        self._states.prepare(prompt.tokens)
        self._asked = question if question.n_first < question.budget.n_prompt else None
        return prompt

    def edit_chunks(
        self, uri: str, source: ChunkSource, n_tokens_max: int, encode: EncodeChunk
    ) -> tuple[ContextChunk, ...]:
        """Return the context from other files for a document's next edits, the best last.

        They stay in their order from one request to the next.
        """
        former = shown_chunks(self._edit_chunks.pop(uri, NO_CHUNKS), source.may_show)
        chunks = renewed_chunks(former, source.ranked(), n_tokens_max, encode)
        self._edit_chunks[uri] = chunks
        while len(self._edit_chunks) > MAX_DOCUMENTS:
            del self._edit_chunks[next(iter(self._edit_chunks))]
        return tuple(laid_out.chunk for laid_out in chunks.chunks)

    def forget(self) -> None:
        """Forget the texts of earlier prompts: the next ones are laid out anew."""
        self._documents.clear()
        self._edit_chunks.clear()
        self._asked = None

    def prepare(self, tokens: Sequence[int]) -> None:
        """Restore the saved KV state that shares most with a prompt of another kind."""
        self._states.prepare(tokens)

    def has_plan(self) -> bool:
        """Whether there is something to evaluate in idle time."""
        return self._plan() is not None

    def settle(self, interrupted: Callable[[], bool]) -> bool:
        """Evaluate the prompt that the next requests begin with; return whether that is done.

        ``interrupted`` is asked between decodes.
        Raises :class:`~speclsp.errors.DecodeError` from the target.
        """
        prompt = self._plan()
        if prompt is None or self._asked is None:
            return True
        self._states.prepare(prompt.tokens)
        if not self._evaluate(prompt.tokens, interrupted):
            return False
        self._documents[self._asked.uri].adopt(prompt.excerpt)
        return True

    def _plan(self) -> FimPrompt | None:
        asked = self._asked
        if asked is None or asked.uri not in self._documents:
            return None
        return self._documents[asked.uri].plan(asked)

    def _evaluate(self, tokens: Sequence[int], interrupted: Callable[[], bool]) -> bool:
        """Evaluate a prompt; return whether the target's cache holds all of it."""
        target = self._target
        target.truncate(common_head(target.cached, tokens))
        n_cached = len(target.cached)
        while n_cached < len(tokens):
            if interrupted():
                return False
            n_chunk = min(target.n_ubatch, target.n_batch, self._n_idle_chunk)
            piece = tokens[n_cached : n_cached + n_chunk]
            try:
                target.decode(piece, 0)
            except DecodeInterruptedError:
                return False
            n_cached += len(piece)
            self.n_idle_evaluated += len(piece)
        return True
