"""A program's text around a cursor, ended and fitted as an editor's completion is.

A program can insert only: what a completion replaces after the cursor is cut from the text instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from speclsp.text.fitting import Trimmed
from speclsp.text.plain_text import PlainText
from speclsp.text.rules import StopRules
from speclsp.text.stopping import CompletionText
from speclsp.vocabulary_protocol import Vocabulary

_CLOSER: Final = re.compile(r"[)\]}\"'`]")
_N_CUTS: Final = 16
"""A text that replaces what is after the cursor, however it is cut so often, is left out."""
_BROKEN: Final = "\ufffd"


class FittedText(PlainText):
    """One text; the program's own limits hold, too.

    Of a text that is streamed whole lines are told, which the rest then follows, even where the
    whole would have been cut shorter.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        end_tokens: Iterable[int],
        *,
        rules: StopRules,
        min_probability: float = 0.0,
        **limits: Any,
    ) -> None:
        """``rules`` are those of the cursor, ``limits`` the options of :class:`PlainText`.

        ``min_probability`` is that of :class:`CompletionText`.
        """
        super().__init__(vocabulary, {*end_tokens, *vocabulary.end_tokens}, **limits)
        self._rules = rules
        self._completion = CompletionText(vocabulary, rules, min_probability=min_probability)
        self._n_taken = 0
        """Characters that the completion has."""
        self._n_lines = 0
        self._told = ""

    def feed(self, token: int, logprob: float = math.nan) -> bool:
        """Take the next token, the logarithm of its probability NaN where that does not count.

        Return whether to stop.
        """
        is_end = token in self._end_tokens
        following = b"" if is_end else self._piece(token)[self._n_typed_bytes :]
        if following and self._completion.doubts(logprob):
            if not self._take(self.text):
                self._completion.end_before(following)
            self.stopped_by = "rule"
        elif super().feed(token):
            return True
        elif self._take(self.settled):
            self.stopped_by = "rule"
        return self.stopped_by != "none"

    def finish(self) -> str:
        """Return the text to insert at the cursor."""
        if self.stopped_by != "rule":
            self._take(self.text)
        if self.stopped_by != "none":
            self._completion.end()
        text = self._insertion(self._completion.finish())
        return text if text.startswith(self._told) else self._told

    @property
    def so_far(self) -> str:
        """The lines that are whole and fit, of equal ones the first: the others may be a loop."""
        *lines, _ = self._completion.so_far.split("\n")
        if len(lines) > self._n_lines:
            self._n_lines = len(lines)
            while len(lines) > 1 and lines[-1] == lines[-2]:
                del lines[-1]
            fitted = self._completion.fitted("\n".join(lines))
            told = fitted.text.rstrip()
            if not fitted.n_replaced and told.startswith(self._told):
                self._told = told
        return self._told

    def _take(self, text: str) -> bool:
        """Give the completion what it lacks of a text; return whether a rule ends it."""
        new = text[self._n_taken :]
        self._n_taken += len(new)
        whole, broken, _ = new.partition(_BROKEN)
        if broken and self._rules.is_around(_BROKEN):
            whole, broken = new, ""
        return self._completion.grow(whole) or bool(broken)

    def _insertion(self, trim: Trimmed) -> str:
        """Return the longest beginning of a text that replaces nothing after the cursor."""
        if not trim.n_replaced:
            return trim.text
        replaced = self._rules.line_after[: trim.n_replaced].strip()
        places = [trim.text.partition("\n")[0].rfind(replaced)]
        places += [found.start() for found in reversed([*_CLOSER.finditer(trim.text)])]
        for place in islice(sorted({*places}, reverse=True), _N_CUTS):
            shorter = self._completion.fitted(trim.text[: max(0, place)])
            if shorter.text and not shorter.n_replaced:
                return shorter.text
        return ""
