"""What llama.vim remembers of the server's answers, and finds again while they are typed."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from benchmarks.peers.vim_buffer import LocalContext

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
