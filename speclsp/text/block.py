"""The block of code that a completion belongs to, and where it ends."""

from __future__ import annotations

from speclsp.text.code_reader import CodeState
from speclsp.text.languages import (
    CLOSING_WORDS,
    CONTINUATION_WORDS,
    closes_block,
    continues_block,
    heads_definition,
    opens_block,
)
from speclsp.text.rules import StopRules, indent_width


class CursorBlock:
    """The block around the cursor, or opened by its line, while the text grows line by line."""

    def __init__(self, rules: StopRules) -> None:
        self._rules = rules
        self._state = CodeState(rules.state_before.open_marks)
        """The state after the last completed line."""
        self._is_reopened = False
        """Whether the line that closed the cursor's block opened another: ``} else {``."""
        self._base: int | None = None
        """The depth of the first line that is not blank."""
        self._header = ""
        """The last line at the depth of the first one outside of all brackets."""
        self._n_lines = 0

    def take_line(self, line: str) -> None:
        """Take the next completed line; the first one begins with the cursor's line."""
        self._n_lines += 1
        if not line.strip():
            return
        depth = indent_width(line)
        if self._base is None:
            self._base = depth
        if depth == self._base and line.strip() != "{" and not self._is_open():
            self._header = line

    def may_be_special(self, line: str) -> bool:
        """Whether ``line`` is the beginning of a word that may close or continue the block."""
        code = line.lstrip()
        if not code.isidentifier():
            return False
        is_beside = self._base is not None and indent_width(line) >= self._base
        return any(word.startswith(code) for word in CLOSING_WORDS) or (
            is_beside and any(word.startswith(code) for word in CONTINUATION_WORDS)
        )

    def is_left_by(self, line: str) -> bool:
        """Whether ``line`` is outside of the block and closes nothing that is open."""
        indent = indent_width(line)
        if self._base is None or indent > self._base or self._is_open():
            return False
        if indent < self._base:
            # Balancing removes closers that the document has already.
            return line.lstrip()[0] not in ")]}" and not closes_block(line)
        return self._rules.extent == "block" and not continues_block(line)

    def is_ended_by(self, line: str, text: str) -> bool:
        """Whether the block ends with ``line``, the last line of ``text``."""
        before, was_open = self._state, self._is_open()
        self._state = after = self._rules.state_after(text + "\n")
        is_open = self._is_open()
        if self._rules.extent == "string":
            return len(after.open_marks) < len(self._rules.state_before.open_marks)
        if len(after.closed_brackets) > len(before.closed_brackets):
            self._is_reopened = is_open
            if not is_open and not opens_block(self._rules.language_id, line):
                return True
        elif self._is_reopened and not is_open:
            return True
        if self._rules.extent == "block":
            return self._is_closed_by(line, text)
        if self._base is None or not closes_block(line) or is_open:
            return False
        depth, is_end = indent_width(line), line.strip() == ("}" if was_open else "end")
        # Beside other definitions one is enough.
        is_one = is_end and heads_definition(self._rules.language_id, self._header)
        return depth < self._base or (is_one and depth == self._base)

    def _is_open(self) -> bool:
        """Whether a bracket or a long string of the text is open."""
        n_before = len(self._rules.code_before)
        return any(mark.index >= n_before for mark in self._state.open_marks)

    def _is_closed_by(self, line: str, text: str) -> bool:
        """Whether the block that the cursor's line opened ends with ``line``, by indentation."""
        if self._n_lines == 1:
            # The text on the cursor's line may complete the block on that line.
            line_start = len(self._rules.code_before) - len(self._rules.line_before)
            is_open = any(mark.index >= line_start for mark in self._state.open_marks)
            opens = is_open or opens_block(self._rules.language_id, line)
            return bool(text.strip()) and not opens
        is_inside = self._base is None or indent_width(line) > self._base or self._is_open()
        return not is_inside and closes_block(line)
