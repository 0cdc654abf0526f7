"""The text of a completion while it is decoded: grow it token by token until a rule stops it."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Callable, Iterable
from typing import Final, Literal

from speclsp.text.block import CursorBlock
from speclsp.text.code_reader import CLOSERS, QUOTES
from speclsp.text.fitting import (
    Trimmed,
    apart_from,
    balanced,
    is_same_line,
    leaves_long_string_open,
)
from speclsp.text.languages import FENCED, UNREAD, comment_marks, continues_block
from speclsp.text.repetition import counting, first_loop, repeated_lines
from speclsp.text.rules import StopRules, indent_width
from speclsp.vocabulary_protocol import Vocabulary

StopReason = Literal[
    "end",
    "bytes",
    "lines",
    "time",
    "blank",
    "dedent",
    "block",
    "indentation",
    "suffix",
    "loop",
    "fence",
    "unsure",
]
"""What ended a text: an end token or the name of one, bytes that no text has (invalid UTF-8,
control characters), ``max_lines``, the first line end after the latency budget, blank lines, a line
less deep than the cursor's, the end of the block, a first line that is too deep, text that already
follows, a loop, a Markdown fence behind code, or a joint probability below the least one."""

_SEPARATORS: Final = " \t,;.([{\"'`+-*/=&|"

_FENCE: Final = "```"
_ENDS_LINE: Final = CLOSERS | {";"}

_N_BLANK_LINES: Final = 2
"""Consecutive blank lines that end a completion."""

_N_SUBSTANTIAL: Final = 8
"""Least letters and digits of a line that counts as a repetition of a later one."""

_WORD_START: Final = re.compile(r"\w")
_STRING_PREFIX: Final = re.compile(r"(?<!\w)[bBfFrRuU]{1,2}$")
"""As in Python's ``f""``.  Behind it stands a quote."""
_WORD_END: Final = re.compile(r"\w+\Z")

_HALF: Final = re.compile(
    r"(?:[ \t,.+\-*/%=|(\[{:<^~]|(?<=[-=\s])>|(?<!\w)[!?]|&(?:'\w+)?(?: ?mut)?)+\Z"
)
"""Operators and openers that go on with what an unsure model leaves open; ``>`` may close a type,
``!`` and ``?`` may follow a name.  Rust's ``&'a mut`` goes on with a type or a value."""
_ARROW: Final = re.compile(r"(?<=[,(=])\s*(?:async\s+)?(?:\([^()\n]*\)|\w+)\s*=>\s*\Z")
"""The head of a function that is an argument or a value, without its body."""
_JUMP: Final = re.compile(r"\s*(?:break|continue|raise|return|throw)\b(?!.*\b(?:if|unless)\b)")
"""A statement behind which its block ends; with ``if`` behind it, as in Ruby, it may not."""
_METHOD_NAME: Final = re.compile(r"\.\w+")
_LONE_WORD: Final = re.compile(r"(?:^|\n)\s*(?:(?:[#*]|//+|--)(?: \w*)?|\w*)\Z")
"""A last line that is blank, one word, or a comment mark with at most one word behind it, with the
line end before it."""
_FENCE_LINE: Final = re.compile(r"^[ \t]*```", re.MULTILINE)

_DIRECTIONS: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HIDDEN: Final = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_DIRECTIONS}]")
"""Control characters, line ends that not every editor takes for one, and marks that turn the
direction of text, by which code looks other than it is (Boucher and Anderson, "Trojan Source",
arXiv 2111.00169)."""
_DIRECTION: Final = re.compile(f"[{_DIRECTIONS}]")

_SPECIAL: Final = r"<\|\w{1,32}\|>|<\uff5c[\w\u2581]{1,32}\uff5c>|<\[?fim[-_]\w{1,32}\]?>|<EOT>"
"""Names of special tokens that hardly any code contains: ``<|endoftext|>``, ``<fim_middle>``."""
_N_NAME_CHARS: Final = 40
"""Characters of the longest name that is found if it comes in parts."""


class CompletionText:
    """One completion's text.  :meth:`feed` is the decoding loop's stop predicate.

    A character that is split over tokens appears with its last byte.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        rules: StopRules,
        *,
        end_tokens: frozenset[int] = frozenset(),
        end_names: Iterable[str] = (),
        typed: str = "",
        min_probability: float = 0.0,
        budget_s: float = math.inf,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``end_tokens`` are those of the FIM family, in addition to the vocabulary's own.

        ``end_names`` are names of end tokens that also end the text where they are spelled in it,
        as a server may do.
        ``typed`` is the text before the cursor that the model repeats first (token healing).
        The text ends before the token with which the joint probability of its tokens falls below
        ``min_probability``.
        A line that ends ``budget_s`` seconds of ``clock`` or more after the first token ends the
        text: llama.cpp's ``t_max_predict_ms``.
        """
        self._piece = vocabulary.piece
        self._end_tokens = vocabulary.end_tokens | end_tokens
        self._end_name = re.compile("|".join((_SPECIAL, *map(re.escape, sorted(end_names)))))
        self._rules = rules
        self._min_probability = min_probability
        self._budget_s = budget_s
        self._clock = clock
        self._time_is_up_at: float | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._n_typed_bytes = len(typed.encode("utf-8", "replace"))
        self._text = ""
        self._line_start = 0
        self._lines: list[str] = []
        """Completed lines; the first one begins with the cursor's line."""
        self._block = CursorBlock(rules)
        self.stopped_by: StopReason | None = None
        """The rule that ended the text; None where none has."""
        self.probability = 1.0
        """The joint probability of the tokens that were fed, up to the one that ended the text.

        Those do not count that repeat what was typed before the cursor.
        """

    def feed(self, token: int, logprob: float = math.nan) -> bool:
        """Take the next token; return whether to stop.

        ``logprob`` is the natural logarithm of its probability, NaN where that is not known.
        """
        if self._is_stopped():
            return True
        if self._time_is_up_at is None:
            self._time_is_up_at = self._clock() + self._budget_s
        piece = self._piece(token)
        n_typed = min(self._n_typed_bytes, len(piece))
        self._n_typed_bytes -= n_typed
        if token in self._end_tokens:
            self.stopped_by = "end"
            return True
        if n_typed < len(piece) and self.doubts(logprob):
            self.end_before(piece[n_typed:])
            return True
        try:
            self._grow(self._decoder.decode(piece[n_typed:]))
        except UnicodeDecodeError as error:
            # ``object`` includes the decoder's buffer: the bytes before ``start`` are valid.
            self._grow(error.object[: error.start].decode())
            self.stopped_by = self.stopped_by or "bytes"
        return self._is_stopped()

    def grow(self, characters: str) -> bool:
        """Take the next characters of a text that is decoded elsewhere; return whether to stop."""
        if not self._is_stopped():
            self._grow(characters)
        return self._is_stopped()

    def doubts(self, logprob: float) -> bool:
        """Count the next token's probability; return whether the text ends before that token."""
        if not math.isnan(logprob):
            self.probability *= math.exp(logprob)
        return self.probability < self._min_probability

    def end(self) -> None:
        """Note that the text is whole, as after an end token."""
        self.stopped_by = self.stopped_by or "end"

    def end_before(self, following: bytes) -> None:
        """End the text before the token ``following``, at the end of a line or of a word.

        A word that goes on with ``following`` is left out, and so is what joins it to the others: a
        string that it would be in, letters that say what kind of string begins there, operators.
        Of a line that begins in the text more than one word is left.
        """
        self.stopped_by = "unsure"
        if leaves_long_string_open(self._text, self._rules):
            self._text = ""
            return
        n_whole = self._n_before_open_string()
        rest = self._text[n_whole:] + following.decode("utf-8", "ignore")
        text = self._text[:n_whole]
        if rest[:1] in ("'", '"'):
            text = _STRING_PREFIX.sub("", text)
        if _WORD_START.match(rest):
            text = _WORD_END.sub("", text)
        if rest[:1] not in ("\n", "\r"):
            whole = _HALF.sub("", _ARROW.sub("", text))
            if self._names_argument(whole, text[len(whole) :] + rest):
                whole = _HALF.sub("", _WORD_END.sub("", whole))
            text = "" if self._is_lone_method(whole) else self._without_lone_word(whole)
        self._text = text
        if self._opens_fence():
            self._text = self._text[: max(0, self._line_start - 1)]

    def _n_before_open_string(self) -> int:
        """Return how many characters come before a string that the text leaves open."""
        n_before = len(self._rules.code_before)
        for mark in self._rules.state_after(self._text).open_marks:
            if mark.index >= n_before and mark.kind in QUOTES:
                return mark.index - n_before
        return len(self._text)

    def _names_argument(self, text: str, value: str) -> bool:
        """Whether the last word is an argument's name, with ``=`` to follow."""
        value = value.lstrip(" ")
        if value[:1] != "=" or value[:2] == "==":
            return False
        return self._rules.state_after(text).innermost == "("

    def _is_lone_method(self, text: str) -> bool:
        """Whether the text is a method's name behind a string, without its call."""
        is_behind = self._rules.line_before[-1:] in ("'", '"')
        return is_behind and bool(_METHOD_NAME.fullmatch(text))

    def _without_lone_word(self, text: str) -> str:
        """Return the text without a last line of one word, if that line begins in the text.

        A word in round or square brackets may be whole.
        """
        found = _LONE_WORD.search(text)
        if not found or (self._rules.line_before.strip() and "\n" not in found[0]):
            return text
        is_item = self._rules.state_after(text).innermost in {"(", "["}
        return text if is_item else text[: found.start()]

    def _opens_fence(self) -> bool:
        """Whether the text ends with the line that begins a block of code in Markdown."""
        if self._rules.language_id not in FENCED:
            return False
        fences = _FENCE_LINE.findall(self._rules.code_before + self._text)
        is_last = bool(_FENCE_LINE.match(self._text[self._line_start :]))
        return is_last and len(fences) % 2 == 1

    def finish(self) -> Trimmed:
        """Return the text to insert; more tokens may be fed afterwards."""
        raw = self._text
        if self.stopped_by in (None, "end", "unsure"):
            raw = self._without_unwanted_last_line()
        if self.stopped_by is None and raw == self._text:
            raw = _up_to_whole_line_or_call(raw)
        return self.fitted(self._without_lone_mark(raw))

    def _without_lone_mark(self, text: str) -> str:
        """Return the text without a last line that is a comment mark, if it begins in the text.

        Below another comment of the text it may be the last line of a box, or a blank one.
        """
        head, line_end, last = text.rstrip().rpartition("\n")
        line_before = self._rules.line_before.strip()
        if not line_end and line_before:
            return "" if line_before == "/*" and last.strip() == "*" else text
        marks = comment_marks(self._rules.language_id)[0]
        is_below = bool(line_end) and head.rpartition("\n")[2].lstrip().startswith(marks)
        if self._rules.state_after(head + line_end).scope == "comment":
            marks, is_below = ("*",), False
        is_mark = last.strip().rstrip("!") in {*marks, *(mark + mark[-1] for mark in marks)}
        return self._without_lone_mark(head) if is_mark and not is_below else text

    def fitted(self, beginning: str) -> Trimmed:
        """Fit a beginning of a finished text: the rest may have closed a bracket."""
        rules = self._rules
        trim = balanced(beginning.replace(rules.newline, "\n"), rules)
        if trim.n_replaced:
            return trim
        return Trimmed(apart_from(rules.line_after, trim.text, rules.line_before))

    @property
    def so_far(self) -> str:
        """The text as it was fed, not fitted to the text around the cursor."""
        return self._text

    def _is_stopped(self) -> bool:
        return self.stopped_by is not None

    def _grow(self, characters: str) -> None:
        """Append characters until a rule stops the text."""
        characters = characters.replace("\r", "")
        n_shown = self._n_shown(characters)
        if n_shown < len(characters):
            self._grow(characters[:n_shown])
            self.stopped_by = self.stopped_by or "bytes"
            return
        *whole, rest = characters.split("\n")
        for line in whole:
            self._append(line)
            if not self._is_stopped():
                self._end_line()
            if self._is_stopped():
                return
        if rest:
            self._append(rest)
            if not self._is_stopped():
                self._is_stopped_at(self._current_line(), is_whole=False)

    def _n_shown(self, characters: str) -> int:
        """Return how many characters come before the first that must not be inserted.

        Marks of direction may, where the text around the cursor has the same, as in Hebrew.
        """
        for found in _HIDDEN.finditer(characters):
            mark = found.group()
            if not (_DIRECTION.match(mark) and self._rules.is_around(mark)):
                return found.start()
        return len(characters)

    def _append(self, characters: str) -> None:
        """Append a part of a line, up to the name of a special token or a loop."""
        n_known = len(self._text) - self._line_start
        self._text += characters
        if not self._lines:
            self._check_indentation()
        if self._is_stopped() or self._has_end_name(len(characters)) or self._is_fenced():
            return
        n_kept = counting(self._text)
        if n_kept is not None:
            self._text = self._text[:n_kept].rstrip()
            self.stopped_by = "loop"
            return
        n_kept = first_loop(self._text[self._line_start :], n_known)
        if n_kept is not None:
            # One round, without the separators before the next.
            kept = self._text[self._line_start :][:n_kept].rstrip(_SEPARATORS)
            self._text = self._text[: self._line_start] + kept
            self.stopped_by = "loop"

    def _has_end_name(self, n_new: int) -> bool:
        """Whether the name of a special token ends in the last ``n_new`` characters; if so, cut it.

        Where the text around the cursor has the same name, it is part of the code.
        """
        start = max(self._line_start, len(self._text) - n_new - _N_NAME_CHARS)
        for found in self._end_name.finditer(self._text, start):
            if not self._rules.is_around(found.group()):
                self._text = self._text[: found.end()]
                if not self._is_stopped_at(self._current_line(), is_whole=False):
                    self._text = self._text[: found.start()]
                    self.stopped_by = "end"
                return True
        return False

    def _is_fenced(self) -> bool:
        """Whether a Markdown fence stands in code, as in a chat's answer; if so, cut it.

        It may stand in comments and strings, and in an unknown language beside others.
        """
        rules, start = self._rules, self._text.find(_FENCE, self._line_start)
        if start < 0 or rules.language_id in FENCED:
            return False
        if not rules.language_id and rules.is_around(_FENCE):
            return False
        if rules.state_after(self._text[:start]).scope != "code":
            return False
        self._text = self._text[:start].rstrip()
        self.stopped_by = "fence"
        return True

    def _end_line(self) -> None:
        line = self._current_line()
        if self._is_stopped_at(line, is_whole=True):
            return
        self._lines.append(line)
        self._block.take_line(line)
        # The cursor's line before the cursor belongs to no loop.
        n_own = 1 if self._rules.line_before.strip() else 0
        n_kept = repeated_lines(self._lines[n_own:])
        if n_kept is not None:
            self._text = "\n".join(self._text.split("\n")[: n_own + n_kept])
            self.stopped_by = "loop"
        elif self._n_lines() >= self._rules.max_lines:
            self.stopped_by = "lines"
        elif self._text.strip() and self._is_time_up():
            self.stopped_by = "time"
        elif len(self._lines) > _N_BLANK_LINES and not any(
            line.strip() for line in self._lines[-_N_BLANK_LINES:]
        ):
            self.stopped_by = "blank"
        elif self._rules.extent != "line" and self._block.is_ended_by(line, self._text):
            self.stopped_by = "block"
        else:
            self._text += "\n"
            self._line_start = len(self._text)

    def _is_stopped_at(self, line: str, *, is_whole: bool) -> bool:
        """Whether the text ends before ``line``; if so, cut it there."""
        if not line.strip():
            return False
        # First the rule that may decide before the line is whole.
        is_decided = self._has_depth() and (is_whole or not self._block.may_be_special(line))
        if is_decided and self._block.is_left_by(line):
            return self._cut_line("dedent")
        if not self._lines and self._begins_headless(line):
            return self._cut_line("block")
        if is_whole and (self._repeats_suffix(line) or self._skips_suffix(line)):
            return self._cut_line("suffix")
        return False

    def _repeats_suffix(self, line: str) -> bool:
        """Whether ``line`` is one of the next lines after the cursor."""
        n_substantial = sum(character.isalnum() for character in line)
        is_first = not self._lines and bool(self._rules.line_before.strip())
        if is_first and (n_substantial < _N_SUBSTANTIAL or not self._text.strip()):
            return False
        next_lines = self._rules.next_lines
        if is_same_line(line, next_lines[:1]):
            return True
        return n_substantial >= _N_SUBSTANTIAL and is_same_line(line, next_lines[1:3])

    def _begins_headless(self, line: str) -> bool:
        """Whether ``line`` goes on with no statement by a word that the text has a part of."""
        rules = self._rules
        return rules.lacks_head(line) and not rules.lacks_head(f"{rules.line_before} ")

    def _skips_suffix(self, line: str) -> bool:
        """Whether ``line`` leaves the block, and the next line would never be reached.

        A jump that was typed is meant.
        """
        rules, following = self._rules, self._rules.next_lines[:1]
        if rules.language_id in UNREAD or not _JUMP.match(line) or not following:
            return False
        if not self._lines and rules.line_before.strip():
            return False
        if rules.state_after(self._text[: self._line_start]).scope != "code":
            return False
        is_beside = indent_width(line) == indent_width(following[0])
        return is_beside and not continues_block(following[0])

    def _without_unwanted_last_line(self) -> str:
        """Return the text, without its unfinished last line if a rule would cut that line."""
        line = self._current_line()
        if not line.strip():
            return self._text
        leaves = self._has_depth() and self._block.is_left_by(line)
        if leaves or self._repeats_suffix(line) or self._skips_suffix(line):
            return self._text[: max(0, self._line_start - 1)]
        return self._text

    def _check_indentation(self) -> None:
        """Remove indentation that the text adds to a blank line if no block is so deep.

        A closing brace that is deeper than the line of its opener is left out.
        """
        code = self._text.lstrip(" \t")
        lead = self._text[: len(self._text) - len(code)]
        line_before = self._rules.line_before
        if not code or line_before.strip():
            return
        if code[0] == "}" and self._rules.is_deeper_than_opener(line_before + lead):
            self._cut_line("indentation")
        elif lead and not self._rules.may_be_indented(lead):
            self._text = code
            if not line_before:
                self._cut_line("indentation")

    def _is_time_up(self) -> bool:
        return self._time_is_up_at is not None and self._clock() >= self._time_is_up_at

    def _has_depth(self) -> bool:
        """Whether indentation counts: after the cursor's line, if the text may have more lines."""
        return bool(self._lines) and self._rules.extent != "line"

    def _current_line(self) -> str:
        line = self._text[self._line_start :]
        return line if self._lines else self._rules.line_before + line

    def _n_lines(self) -> int:
        """Return the number of lines; an empty rest of the cursor's line does not count."""
        is_first_empty = self._rules.extent != "line" and not self._text.partition("\n")[0].strip()
        return len(self._lines) - is_first_empty

    def _cut_line(self, reason: StopReason) -> bool:
        # The line end before the line goes too.
        self._text = self._text[: max(0, self._line_start - 1)]
        self.stopped_by = reason
        return True


def _up_to_whole_line_or_call(text: str) -> str:
    """Return a text that a limit cut off up to its last whole line.

    A line of nothing but closing brackets and semicolons is whole.  A text of one line is kept up
    to its last closing bracket, and whole where it has none or ends with a semicolon.
    """
    lines, _, last = text.rpartition("\n")
    if lines.strip():
        return text if last.strip() and not set(last.strip()) - _ENDS_LINE else lines
    return text if text.rstrip()[-1:] == ";" else text[: max(map(text.rfind, CLOSERS)) + 1] or text
