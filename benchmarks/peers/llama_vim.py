"""What llama.vim does at a cursor: which request it sends, and what it shows when.

After the plugin's version 0.1.0, with its default settings.  There, requests run beside the editor;
here, whoever calls waits, and what the plugin does in the background is done when asked for.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.peers.infill import RESPONSE_FIELDS, Infill, InfillAnswer, JsonObject
from benchmarks.peers.vim_buffer import (
    N_PREFIX_LINES,
    N_SUFFIX_LINES,
    LocalContext,
    Shown,
    VimBuffer,
    context_ahead,
    local_context,
    shown_suggestion,
)

N_CHUNKS: Final = 16
CHUNK_LINES: Final = 64
SCOPE_LINES: Final = 1024
"""How far above the cursor a chunk may begin that is picked after a request."""
MOVED_LINES: Final = 32
"""How far the cursor must have gone for chunks around it to be picked again."""

_N_QUEUED: Final = 16
_LEAST_LINES: Final = 3
_SAME: Final = 0.9
_DISTURBS: Final = 0.5
_HALF: Final = CHUNK_LINES // 2
_WORD: Final = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some lines of a file."""

    file: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The lines with their ends."""
        return "\n".join(self.lines) + "\n"


class ChunkRing:
    """Chunks wait in a queue, and get into the ring one by one; ``n_evicted`` were too alike."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._queued: list[Chunk] = []
        self._picked_row: int | None = None
        self.chunks: list[Chunk] = []
        self.n_evicted = 0

    @property
    def n_queued(self) -> int:
        """How many chunks wait."""
        return len(self._queued)

    def pick_around(self, buffer: VimBuffer) -> None:
        """Pick a chunk where the cursor is: on entering, leaving and writing a file."""
        self.pick(buffer.file, _around(buffer), evicts=True)

    def pick_beyond(self, buffer: VimBuffer) -> None:
        """Pick chunks from before and behind what a request shows, if the cursor went far."""
        row, n_rows = buffer.row, len(buffer.lines)
        if self._picked_row is not None and abs(row - self._picked_row) <= MOVED_LINES:
            return
        before = buffer.rows(row - SCOPE_LINES, max(1, row + 1 - N_PREFIX_LINES))
        self.pick(buffer.file, before, evicts=False)
        first = min(n_rows - 1, row + N_SUFFIX_LINES)
        after = buffer.rows(first, row + 1 + N_SUFFIX_LINES + CHUNK_LINES)
        self.pick(buffer.file, after, evicts=False)
        self._picked_row = row

    def pick(self, file: str, lines: Sequence[str], *, evicts: bool) -> None:
        """Queue a chunk of the lines, drawn evenly where they are many.

        A chunk that is very similar to others takes their places, or with ``evicts`` false is not
        taken.
        """
        if len(lines) < _LEAST_LINES:
            return
        whole = len(lines) + 1 < CHUNK_LINES
        chunk = Chunk(file, tuple(lines if whole else self._drawn(lines)))
        kept = [*self._queued, *self.chunks]
        if any(other.lines == chunk.lines for other in kept):
            return
        alike = [other for other in kept if similarity(other.lines, chunk.lines) > _SAME]
        if alike and not evicts:
            return
        self._evict(alike)
        if len(self._queued) == _N_QUEUED:
            self._queued.pop(0)
        self._queued.append(chunk)

    def evict_like(self, buffer: VimBuffer) -> None:
        """Remove chunks that are similar to the text at the cursor: they would be repeated."""
        here = self._drawn(_around(buffer))
        self._evict([other for other in self.chunks if similarity(other.lines, here) > _DISTURBS])

    def advance(self) -> bool:
        """Move the oldest queued chunk into the ring; whether there was one."""
        if not self._queued:
            return False
        if len(self.chunks) == N_CHUNKS:
            self.chunks.pop(0)
        self.chunks.append(self._queued.pop(0))
        return True

    def _drawn(self, lines: Sequence[str]) -> Sequence[str]:
        """Half a chunk's lines and one."""
        first = self._random.randint(0, max(0, len(lines) - _HALF))
        return lines[first : first + _HALF + 1]

    def _evict(self, chunks: list[Chunk]) -> None:
        self._queued = [chunk for chunk in self._queued if chunk not in chunks]
        self.chunks = [chunk for chunk in self.chunks if chunk not in chunks]
        self.n_evicted += len(chunks)


def similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how many words two texts share: from 0 to 1, repeated words counted in ``other``."""
    words, others = _WORD.findall("\n".join(one)), _WORD.findall("\n".join(other))
    if not words and not others:
        return 1.0
    known = set(words)
    return 2.0 * sum(word in known for word in others) / (len(words) + len(others))


def _around(buffer: VimBuffer) -> list[str]:
    return buffer.rows(buffer.row - _HALF, buffer.row + _HALF + 1)


N_REMEMBERED: Final = 250
N_CHARS_BACK: Final = 128
N_LINES_DROPPED: Final = 3
"""First lines of the prefix whose absence a key survives: the window slides with the cursor."""

_CURSOR: Final = "\0"


class VimMemory:
    """The latest answers by the text around the cursor; the one used longest ago goes first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: bytes) -> str | None:
        """Return the answer that was remembered under a key."""
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def knows_any(self, keys: list[bytes]) -> bool:
        """Whether there is an answer under one of the keys; the first found counts as used."""
        return any(self.get(key) is not None for key in keys)

    def remember(self, keys: list[bytes], answer: str) -> None:
        """Remember an answer under each key."""
        for key in keys:
            if key not in self._answers and len(self._answers) >= N_REMEMBERED:
                self._answers.popitem(last=False)
            self._answers[key] = answer
            self._answers.move_to_end(key)

    def typed_through(self, context: LocalContext) -> str | None:
        """Return the longest rest of an answer whose beginning was typed since, if there is one.

        Answers up to ``N_CHARS_BACK`` characters before the cursor are looked at.
        """
        before = context.prefix + context.middle
        longest = ""
        for n_typed in range(1, min(N_CHARS_BACK, len(before)) + 1):
            cut = len(before) - n_typed
            answer = self.get(_key(before[:cut], context.suffix))
            if answer is not None and answer.startswith(before[cut:]):
                longest = max(longest, answer[n_typed:], key=len)
        return longest or None


def key_of(context: LocalContext) -> bytes:
    """Return the key of the context itself."""
    return _key(context.prefix + context.middle, context.suffix)


def keys_of(context: LocalContext) -> list[bytes]:
    """Return the context's key, and those of it without its first one, two and three lines."""
    keys, prefix = [key_of(context)], context.prefix
    for _ in range(N_LINES_DROPPED):
        prefix = prefix.partition("\n")[2]
        if not prefix:
            break
        keys.append(_key(prefix + context.middle, context.suffix))
    return keys


def _key(before: str, after: str) -> bytes:
    return hashlib.sha256(f"{before}{_CURSOR}{after}".encode("utf-8", "surrogatepass")).digest()


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
    """The plugin of one editor."""

    def __init__(self, infill: Infill, *, n_predict: int, seed: int) -> None:
        self._infill = infill
        self._n_predict = n_predict
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
        if self.ring.advance():
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
        self.ring.evict_like(buffer)
        answer = self._infill(self._body(context, limit_ms))
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
            "stop": [],
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
