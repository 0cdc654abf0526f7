"""What llama.vim does at a cursor: which request it sends, and what it shows when.

After the plugin's version 0.1.0, with its default settings.  There, requests run beside the editor;
here, whoever calls waits, and what the plugin does in the background is done when asked for.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.peers.infill import RESPONSE_FIELDS, Infill, InfillAnswer, JsonObject
from benchmarks.peers.vim_buffer import (
    LocalContext,
    VimBuffer,
    context_ahead,
    local_context,
)
from benchmarks.peers.vim_chunks import ChunkRing
from benchmarks.peers.vim_memory import VimMemory, key_of, keys_of
from benchmarks.peers.vim_screen import Shown, shown_suggestion

LONGEST_SUFFIX: Final = 8
"""Characters behind the cursor on its line beyond which nothing is asked by itself."""
FIRST_LIMIT_MS: Final = 250
"""For generation, after which its next line end ends it."""
AHEAD_LIMIT_MS: Final = 1000
_PROMPT_LIMIT_MS: Final = 500


Source = Literal["model", "memory", "filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What a key led to; ``answer`` is None where no request was waited for."""

    text: str
    source: Source
    answer: InfillAnswer | None = None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request in the background: behind ``shown``, or at the cursor where that is empty."""

    buffer: VimBuffer
    shown: tuple[str, ...] = ()


class LlamaVim:
    """The plugin of one editor.

    ``remembers`` false takes away what it does for later keys: remembered answers, requests ahead,
    and the ring of chunks, which it would send at each key.  The server keeps prompts either way.
    ``stop`` is the plugin's setting of that name: texts that end what is generated; it has none.
    """

    def __init__(
        self, infill: Infill, *, n_predict: int, remembers: bool, stop: Sequence[str], seed: int
    ) -> None:
        self._infill = infill
        self._n_predict = n_predict
        self._stop = list(stop)
        self._remembers = remembers
        self._memory = VimMemory()
        self._indent = 0
        self._waiting: deque[_Waiting] = deque()
        self.ring = ChunkRing(random.Random(f"chunks {seed}"))  # noqa: S311 - no secret
        self.ahead: list[InfillAnswer] = []
        """Answers to requests in the background."""
        self.warm_ups: list[InfillAnswer] = []

    def moved(self, buffer: VimBuffer) -> Suggestion:
        """Return what is shown once the cursor has come here by a key.

        What was waiting for the background is forgotten: its place is another now.
        """
        self._waiting.clear()
        shown, is_exact = self._from_memory(buffer)
        ahead = None
        if shown is not None and not shown.can_be_taken and not is_exact:
            # What is left of an answer is nothing: behind it is asked first, which may be here.
            ahead = self._ask_in_background(_Waiting(buffer, tuple(shown.lines)))
            shown, is_exact = self._from_memory(buffer)
        if shown is not None and (shown.can_be_taken or is_exact):
            # The position's own request follows the one behind the suggestion.
            self._waiting += [_Waiting(buffer, tuple(shown.lines)), _Waiting(buffer)]
            source: Source = "model" if ahead is not None else "memory"
            return Suggestion(text=shown.text, source=source, answer=ahead)
        context = local_context(buffer)
        if context.n_chars_after > LONGEST_SUFFIX:
            return Suggestion(text="", source="filter")
        keys = keys_of(context)
        if self._memory.knows_any(keys):
            return Suggestion(text="", source="memory")
        answer = self._request(buffer, context, keys, FIRST_LIMIT_MS)
        shown = shown_suggestion(answer.text, buffer)
        if self._remembers:
            self._waiting.append(_Waiting(buffer, tuple(shown.lines)))
        return Suggestion(text=shown.text, source="model", answer=answer)

    def work_in_background(self) -> None:
        """Do what waits: requests behind what is on the screen, and for the position itself."""
        while self._waiting:
            answer = self._ask_in_background(self._waiting.popleft())
            if answer is not None:
                self.ahead.append(answer)

    def advance_ring(self) -> None:
        """Take a chunk into the ring, and have the server evaluate all of them.

        The plugin does so each second unless the user is inserting text.
        """
        if self._remembers and self.ring.advance():
            self.warm_ups.append(self._infill(self._warm_up()))

    def _ask_in_background(self, waiting: _Waiting) -> InfillAnswer | None:
        """Ask what waits, unless the answer is known."""
        if waiting.shown:
            context = context_ahead(waiting.buffer, list(waiting.shown), self._indent)
            limit_ms = AHEAD_LIMIT_MS
        else:
            context, limit_ms = local_context(waiting.buffer), FIRST_LIMIT_MS
        keys = keys_of(context)
        if context.n_chars_after > LONGEST_SUFFIX or self._memory.knows_any(keys):
            return None
        return self._request(waiting.buffer, context, keys, limit_ms)

    def _from_memory(self, buffer: VimBuffer) -> tuple[Shown | None, bool]:
        """Return what is shown of what is remembered, and whether it was for this very text."""
        context = local_context(buffer)
        exact = self._memory.get(key_of(context))
        answer = exact if exact is not None else self._memory.typed_through(context)
        if answer is None:
            return None, False
        return shown_suggestion(answer, buffer), exact is not None

    def _request(
        self, buffer: VimBuffer, context: LocalContext, keys: list[bytes], limit_ms: int
    ) -> InfillAnswer:
        self._indent = context.indent
        if self._remembers:
            self.ring.evict_like(buffer)
        answer = self._infill(self._body(context, limit_ms))
        if self._remembers:
            self.ring.pick_beyond(buffer)
            self._memory.remember(keys, answer.text)
        return answer

    def _body(self, context: LocalContext, limit_ms: int) -> JsonObject:
        return {
            "id_slot": 0,
            "input_prefix": context.prefix,
            "input_suffix": context.suffix,
            "input_extra": self._extra(),
            "prompt": context.middle,
            "n_predict": self._n_predict,
            "stop": self._stop,
            "n_cmpl": 1,
            "n_indent": context.indent,
            "top_k": 40,
            "top_p": 0.90,
            "samplers": ["top_k", "top_p", "infill"],
            "stream": False,
            "cache_prompt": True,
            "t_max_prompt_ms": _PROMPT_LIMIT_MS,
            "t_max_predict_ms": limit_ms,
            "response_fields": list(RESPONSE_FIELDS),
        }

    def _warm_up(self) -> JsonObject:
        return {
            "id_slot": 0,
            "input_prefix": "",
            "input_suffix": "",
            "input_extra": self._extra(),
            "prompt": "",
            "n_predict": 0,
            "temperature": 0.0,
            "samplers": [],
            "stream": False,
            "cache_prompt": True,
            "t_max_prompt_ms": 1,
            "t_max_predict_ms": 1,
            "response_fields": list(RESPONSE_FIELDS),
        }

    def _extra(self) -> list[JsonObject]:
        return [{"text": chunk.text, "filename": chunk.file} for chunk in self.ring.chunks]
