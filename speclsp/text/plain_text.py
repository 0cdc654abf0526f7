"""A model's text as it comes: ended by stop strings, indentation and time, and fitted to nothing.

The rules are llama-server's (``process_token`` in ``tools/server/server-context.cpp``).
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from speclsp.seam.text import StopKind
from speclsp.text.stop_strings import StopStrings
from speclsp.vocabulary_protocol import Vocabulary

_INDENT: Final = " \t"


class PlainText:
    """One text.  :meth:`feed` is the decoding loop's stop predicate.

    A character that is split over tokens appears with its last byte, or not at all; bytes that are
    no UTF-8 become U+FFFD.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        end_tokens: Iterable[int],
        *,
        stops: Sequence[str] = (),
        n_indent: int = 0,
        budget_s: float = 0.0,
        clock: Callable[[], float] = lambda: 0.0,
        typed: str = "",
    ) -> None:
        """``stops``, ``n_indent`` and ``budget_s`` are those of a ``TextRequest``.

        ``typed`` is the text before the cursor that the model repeats first (token healing).
        """
        self._piece = vocabulary.piece
        self._end_tokens = frozenset(end_tokens)
        self._stops = StopStrings(stops)
        self._n_indent = n_indent
        self._budget_s = budget_s
        self._clock = clock
        self.began_at: float | None = None
        """The time of the first token, from which ``budget_s`` counts."""
        self._n_typed_bytes = len(typed.encode("utf-8", "replace"))
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = -1
        """Start of the line whose indentation is not known to be deep enough; -1 for none."""
        self.text = ""
        self.stopped_by: StopKind = "none"
        self.stopping_word = ""

    def feed(self, token: int, logprob: float = math.nan) -> bool:  # noqa: ARG002
        """Take the next token; return whether to stop."""
        if self.began_at is None:
            self.began_at = self._clock()
        if token in self._end_tokens:
            self.stopped_by = "end"
            return True
        piece = self._piece(token)
        n_typed = min(self._n_typed_bytes, len(piece))
        self._n_typed_bytes -= n_typed
        new = self._decoder.decode(piece[n_typed:])
        if new:
            self._grow(new)
        return self.stopped_by != "none"

    def finish(self) -> str:
        """Return the whole text."""
        return self.text

    @property
    def so_far(self) -> str:
        """What of the text may be told already."""
        return self.settled

    @property
    def settled(self) -> str:
        """The text that later tokens leave as it is: without the beginning of a stop string."""
        if self.stopped_by != "none":
            return self.text
        end = len(self.text) - self._stops.n_held
        if self._line >= 0:  # a line that is too shallow is cut behind its white space
            end = min(end, self._line)
        return self.text[:end]

    def _grow(self, new: str) -> None:
        before = len(self.text)
        self.text += new
        if found := self._stops.feed(new):
            place, self.stopping_word = found
            self.text = self.text[: before + place]
            self.stopped_by = "word"
        elif self._is_too_shallow(before) or ("\n" in new and self._is_time_up()):
            self.stopped_by = "limit"

    def _is_too_shallow(self, before: int) -> bool:
        """Whether a new line is not deep enough; if so, cut it behind its white space."""
        if self._n_indent and self._line < 0:
            self._line = self.text.find("\n", before) + 1 or -1
        while self._line >= 0:
            rest = self.text[self._line :]
            code = rest.lstrip(_INDENT)
            n_blank = len(rest) - len(code)
            if not code:
                return False
            if n_blank < self._n_indent:
                self.text = self.text[: self._line + n_blank]
                return True
            self._line = self.text.find("\n", self._line) + 1 or -1
        return False

    def _is_time_up(self) -> bool:
        if not self._budget_s or self.began_at is None:
            return False
        return self._clock() - self.began_at > self._budget_s


class ExpectedText(PlainText):
    """A text that ends once it shows whether it begins as is expected."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        end_tokens: Iterable[int],
        *,
        stops: Sequence[str] = (),
        expected: str,
    ) -> None:
        """``expected`` is the beginning."""
        super().__init__(vocabulary, end_tokens, stops=stops)
        self._expected = expected

    def feed(self, token: int, logprob: float = math.nan) -> bool:
        """Take the next token; return whether to stop."""
        is_ended = super().feed(token, logprob)
        n_chars = min(len(self.text), len(self._expected))
        is_open = len(self.text) < len(self._expected) and self.text == self._expected[:n_chars]
        return is_ended or not is_open
