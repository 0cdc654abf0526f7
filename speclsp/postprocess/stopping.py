"""The text of a completion while it is decoded: grow it token by token, and know when to stop."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from speclsp.fim.protocol import Vocabulary
from speclsp.postprocess.brackets import has_open_bracket
from speclsp.postprocess.detokenizer import Utf8Detokenizer
from speclsp.postprocess.languages import closes_block, continues_block, opens_block
from speclsp.postprocess.repetition import repeated_characters, repeated_lines
from speclsp.postprocess.rules import StopRules
from speclsp.postprocess.trim import trimmed
from speclsp.postprocess.whitespace import indent_width

StopReason = Literal["end", "bytes", "lines", "blank", "dedent", "block", "suffix", "loop"]
"""What ended a text: an end token, bytes that are no text, ``max_lines``, blank lines, a line
less deep than the cursor's, the end of the block, text that already follows, or a loop."""

_N_BLANK_LINES: Final = 2
"""As many blank lines one after another end a completion."""

_N_SUBSTANTIAL: Final = 8
"""Letters and digits of a line that hardly stands twice by chance."""

_CONNECTORS: Final = " \t,;.([{\"'`+-*/=&|"
_FIRST_WORD: Final = re.compile(r"\s*(\w*)(?!\w)")


@dataclass(frozen=True, slots=True)
class CompletedText:
    """What to insert at the cursor, and how much behind it to take out first."""

    text: str
    n_replaced: int
    """Characters (code points) after the cursor, on its line, that ``text`` replaces."""
    stopped_by: StopReason | None
    """The rule that ended the text; None where decoding ended for another reason."""


class CompletionText:
    """One completion's text.  :meth:`feed` is the decoding loop's stop predicate."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        rules: StopRules,
        *,
        end_tokens: frozenset[int] = frozenset(),
        typed: str = "",
    ) -> None:
        """``end_tokens`` end the text beside the vocabulary's own: those of the FIM family.

        ``typed`` is what stands before the cursor already and comes again first, byte by byte.
        """
        self._piece = vocabulary.piece
        self._end_tokens = vocabulary.end_tokens | end_tokens
        self._rules = rules
        self._detokenizer = Utf8Detokenizer()
        self._n_typed_bytes = len(typed.encode("utf-8", "replace"))
        self._text = ""
        self._line_start = 0
        self._lines: list[str] = []
        """Completed lines; the first with the cursor's line before it."""
        self._base_indent: int | None = None
        self._stopped_by: StopReason | None = None

    def feed(self, token: int) -> bool:
        """Take the next token; True to stop."""
        if self._is_stopped():
            return True
        if token in self._end_tokens:
            self._stopped_by = "end"
            return True
        piece = self._piece(token)
        n_typed = min(self._n_typed_bytes, len(piece))
        self._n_typed_bytes -= n_typed
        characters = self._detokenizer.feed(piece[n_typed:]).replace("\r", "")
        self._grow(characters)
        if self._detokenizer.is_broken and not self._is_stopped():
            self._stopped_by = "bytes"
        return self._is_stopped()

    def finish(self) -> CompletedText:
        """The text to insert, from what was fed so far; more may be fed afterwards."""
        raw = self._text
        if self._stopped_by is None or self._stopped_by == "end":
            raw = self._without_unwanted_last_line()
        elif "\n" in raw[len(raw.rstrip()) :]:
            # The blank lines led over to what the rule has cut.
            raw = raw.rstrip()
        trim = trimmed(raw, self._rules)
        return CompletedText(trim.text, trim.n_replaced, self._stopped_by)

    @property
    def so_far(self) -> str:
        """The text as it was fed, not yet fitted to what stands around the cursor."""
        return self._text

    @property
    def text(self) -> str:
        """The text to insert, from what was fed so far."""
        return self.finish().text

    def _is_stopped(self) -> bool:
        return self._stopped_by is not None

    def _grow(self, characters: str) -> None:
        """Take text up to where a rule stops it."""
        *whole, rest = characters.split("\n")
        for line in whole:
            self._text += line
            self._end_line()
            if self._is_stopped():
                return
        if rest:
            self._text += rest
            self._look_at_open_line()

    def _end_line(self) -> None:
        line = self._current_line()
        if self._is_stopped_at(line, is_whole=True):
            return
        self._lines.append(line)
        # What stood on the cursor's line before is no round of a loop.
        n_own = 1 if self._rules.line_before.strip() else 0
        n_kept = repeated_lines(self._lines[n_own:])
        if n_kept is not None:
            self._keep_lines(n_own + n_kept, "loop")
        elif self._n_lines() >= self._rules.max_lines:
            self._stopped_by = "lines"
        elif len(self._lines) > _N_BLANK_LINES and not any(
            line.strip() for line in self._lines[-_N_BLANK_LINES:]
        ):
            self._stopped_by = "blank"
        elif self._rules.extent == "block" and self._closes_the_block(line):
            self._stopped_by = "block"
        else:
            self._text += "\n"
            self._line_start = len(self._text)

    def _look_at_open_line(self) -> None:
        line = self._current_line()
        if self._is_stopped_at(line, is_whole=False):
            return
        n_kept = repeated_characters(self._text[self._line_start :])
        if n_kept is not None:
            # One round, without what only led over to the next.
            self._text = self._text[: self._line_start + n_kept].rstrip(_CONNECTORS)
            self._stopped_by = "loop"

    def _is_stopped_at(self, line: str, *, is_whole: bool) -> bool:
        """Whether the text ends before ``line``; cuts it there."""
        if not line.strip():
            return False
        if is_whole and self._repeats_suffix(line):
            return self._cut_line("suffix")
        if not self._has_depth():
            return False
        word = _FIRST_WORD.match(line)
        is_decidable = is_whole or (word is not None and word.end() < len(line.rstrip()))
        if is_decidable and self._leaves_the_block(line, word.group(1) if word else ""):
            return self._cut_line("dedent")
        return False

    def _leaves_the_block(self, line: str, word: str) -> bool:
        indent = indent_width(line)
        base = self._base()
        if base is None or indent > base:
            return False
        is_closer = line.lstrip()[0] in ")]}" or closes_block(line)
        if indent < base:
            # A closing bracket that nothing after the cursor provides is worth having.
            return not (is_closer and not self._rules.next_lines)
        return self._rules.extent == "block" and not (is_closer or continues_block(word))

    def _closes_the_block(self, line: str) -> bool:
        """Whether the block that the cursor's line opened ends with ``line``."""
        if len(self._lines) == 1:
            # Text on the cursor's line itself: the block may have become a part of that line.
            has_text = bool(self._text.strip())
            is_open = has_open_bracket(line) or opens_block(self._rules.language_id, line)
            return has_text and not is_open
        base = self._base()
        is_inside = base is None or indent_width(line) > base
        return not is_inside and closes_block(line)

    def _base(self) -> int | None:
        """The depth of the first line that is not blank, the cursor's if it is that."""
        if self._base_indent is None:
            first = next((line for line in self._lines if line.strip()), None)
            if first is not None:
                self._base_indent = indent_width(first)
        return self._base_indent

    def _repeats_suffix(self, line: str) -> bool:
        """Whether ``line`` stands after the cursor already."""
        if not self._lines and self._rules.line_before.strip():
            return False
        code = line.rstrip()
        next_lines = self._rules.next_lines
        if next_lines[:1] == (code,):
            return True
        n_substantial = sum(character.isalnum() for character in code)
        return n_substantial >= _N_SUBSTANTIAL and code in next_lines[1:3]

    def _without_unwanted_last_line(self) -> str:
        """The text; without its open last line where a rule would have cut the whole line."""
        line = self._current_line()
        if not line.strip():
            return self._text
        word = _FIRST_WORD.match(line)
        leaves = self._has_depth() and self._leaves_the_block(line, word.group(1) if word else "")
        if leaves or self._repeats_suffix(line):
            return self._text[: max(0, self._line_start - 1)]
        return self._text

    def _has_depth(self) -> bool:
        """Whether indentation counts: not on the cursor's line, nor where that is all."""
        return bool(self._lines) and self._rules.extent != "line"

    def _current_line(self) -> str:
        line = self._text[self._line_start :]
        return line if self._lines else self._rules.line_before + line

    def _n_lines(self) -> int:
        """Lines of text; the empty rest of the cursor's line is none in a longer completion."""
        is_first_empty = self._rules.extent != "line" and not self._text.partition("\n")[0].strip()
        return len(self._lines) - is_first_empty

    def _cut_line(self, reason: StopReason) -> bool:
        # The line end before it goes too: it belongs to the line that is cut.
        self._text = self._text[: max(0, self._line_start - 1)]
        self._stopped_by = reason
        return True

    def _keep_lines(self, n_lines: int, reason: StopReason) -> None:
        self._text = "\n".join(self._text.split("\n")[:n_lines])
        self._stopped_by = reason
