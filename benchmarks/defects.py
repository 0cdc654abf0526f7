"""Defects of a suggestion, found in the document that accepting it would give.

They are counted by benchmarks.  Nothing here knows the rules that stop and trim completions, so
that what those miss is found.  A defect is always one that the completion made: the document
without it is the measure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.code_marks import CodeMarks, Opener, code_marks

DefectKind = Literal["repeated_suffix", "unbalanced_bracket", "wrong_indentation", "broken_word"]


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect, and the line, bracket or word that shows it."""

    kind: DefectKind
    detail: str


_N_CHARS: Final = 6000
"""Characters before and after the cursor that are looked at."""

_N_LINES_AFTER: Final = 8
_N_SUBSTANTIAL: Final = 12
"""Letters and digits of a line that hardly stands twice by chance."""

_WORD: Final = re.compile(r"[^\W\d]\w*")
_LAST_WORD: Final = re.compile(r"[^\W\d]\w*\Z")
_FIRST_WORD: Final = re.compile(r"\w+")
_GOES_ON: Final = frozenset("([{,\\+-*/%=&|<>:.?")
"""What a line may end with that leaves a bracket open on purpose."""

_INDENTED_LANGUAGES: Final = frozenset(("cython", "gdscript", "mojo", "python", "starlark"))
_PROSE: Final = frozenset(("", "git-commit", "latex", "markdown", "plaintext", "restructuredtext"))
_KEYWORDS: Final = frozenset(
    (
        "abstract", "assert", "async", "await", "boolean", "break", "case", "catch", "class",
        "const", "continue", "default", "define", "delete", "else", "elif", "enum", "export",
        "extends", "extern", "final", "finally", "float", "for", "foreach", "from", "func",
        "function", "global", "goto", "if", "implements", "import", "include", "instanceof", "int",
        "interface", "internal", "lambda", "local", "match", "module", "mutable", "namespace",
        "new", "nil", "nonlocal", "not", "null", "operator", "override", "package", "pass",
        "private", "protected", "public", "raise", "readonly", "require", "return", "self",
        "static", "string", "struct", "super", "switch", "template", "then", "this", "throw",
        "throws", "trait", "true", "try", "type", "typedef", "typeof", "undefined", "union",
        "unsigned", "using", "val", "var", "virtual", "void", "volatile", "when", "where", "while",
        "with", "yield", "None", "True", "False",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Document:
    """The text around a completion, cut to what is looked at, with LF line ends."""

    before: str
    text: str
    after: str
    """What follows the text: what it replaced is gone."""
    after_unchanged: str
    language_id: str


def find_defects(
    prefix: str, text: str, n_replaced: int, suffix: str, language_id: str
) -> tuple[Defect, ...]:
    """Find what is wrong with inserting ``text`` between ``prefix`` and ``suffix``.

    ``prefix`` and ``suffix`` are the whole document around the cursor, and ``n_replaced`` counts
    the characters of ``suffix`` that are taken out first.  There is at most one defect of each
    kind; an empty text has none.
    """
    if not text.strip():
        return ()
    document = _Document(
        before=_lf(_from_line_start(prefix)),
        text=_lf(text),
        after=_lf(suffix[n_replaced : n_replaced + _N_CHARS]),
        after_unchanged=_lf(suffix[:_N_CHARS]),
        language_id=language_id,
    )
    found: list[Defect] = []
    for find in (_repeated_suffix, _unbalanced_bracket, _wrong_indentation, _broken_word):
        defect = next(find(document), None)
        if defect is not None:
            found.append(defect)
    return tuple(found)


def _repeated_suffix(document: _Document) -> Iterator[Defect]:
    """Return whether the text ends with what already follows it: the rest of the line, or lines."""
    rest, _, following = document.after.partition("\n")
    whole = document.before.rpartition("\n")[2] + document.text
    lines = [_dense(line) for line in whole.split("\n") if line.strip()]
    if rest.strip():
        said = _dense(document.text.rpartition("\n")[2])
        if len(_dense(rest)) >= 2 and _has_letters(rest) and said.endswith(_dense(rest)):
            yield Defect("repeated_suffix", rest.strip())
        return
    next_lines = [_dense(line) for line in following.split("\n") if line.strip()][:_N_LINES_AFTER]
    for n_lines in range(min(len(lines), len(next_lines)), 0, -1):
        is_same = lines[-n_lines:] == next_lines[:n_lines]
        if is_same and sum(map(_n_letters, lines[-n_lines:])) >= 4:
            yield Defect("repeated_suffix", lines[-1])
    if lines and lines[-1] in next_lines[:3] and _n_letters(lines[-1]) >= _N_SUBSTANTIAL:
        yield Defect("repeated_suffix", lines[-1])


def _unbalanced_bracket(document: _Document) -> Iterator[Defect]:
    """A closer too many, a quote left open, or an opener that nothing leads on from."""
    if document.language_id in _PROSE:
        return
    is_before = _marks(document, document.before + document.after_unchanged)
    joined = document.before + document.text + document.after
    is_after = _marks(document, joined)
    if _n_unpaired(is_after) < _n_unpaired(is_before):
        return
    for old, new in (
        (is_before.closers, is_after.closers),
        (is_before.quotes, is_after.quotes),
    ):
        if len(new) > len(old):
            yield Defect("unbalanced_bracket", new[-1].mark)
    if len(is_after.openers) > len(is_before.openers):
        start, end = len(document.before), len(document.before) + len(document.text)
        left_open = [o for o in _marks(document, joined[:end]).openers if o.index >= start]
        on_purpose = [opener for opener in left_open if _leads_on(joined, opener, end)]
        if len(on_purpose) < len(is_after.openers) - len(is_before.openers):
            yield Defect("unbalanced_bracket", is_after.openers[-1].mark)


def _n_unpaired(marks: CodeMarks) -> int:
    return len(marks.closers) + len(marks.openers) + len(marks.quotes)


def _leads_on(joined: str, opener: Opener, text_end: int) -> bool:
    """Whether the text stops where more is to come: behind the opener, or at a comma, say."""
    line_end = joined.find("\n", text_end)
    if joined[text_end : line_end if line_end >= 0 else len(joined)].strip():
        return False
    opened_line = joined[opener.index : text_end].partition("\n")[0].rstrip()
    last = joined[:text_end].rstrip()[-1:]
    return len(opened_line) == 1 or last in _GOES_ON


def _wrong_indentation(document: _Document) -> Iterator[Defect]:
    """White space of a kind that the file has not, or a depth that no open block has."""
    if document.language_id in _PROSE:
        return
    kinds = {_kind(line) for line in (document.before + document.after).split("\n")} - {""}
    joined = document.before + document.text
    start = len(document.before)
    line_start = joined.rfind("\n", 0, start) + 1
    # Text on the cursor's own line says nothing about that line's indentation.
    first = line_start if not joined[line_start:start].strip() else start
    free_lines = set(_marks(document, joined).free_lines)
    depths: list[int] = []
    previous = ""
    index = 0
    for line in joined.split("\n"):
        if line.strip() and index in free_lines:
            if index >= first and index + len(line) > start:
                if len(kinds) == 1 and _kind(line) not in kinds | {""}:
                    yield Defect("wrong_indentation", line)
                if _is_misplaced(line, depths, previous, document.language_id):
                    yield Defect("wrong_indentation", line)
            depth = _depth(line)
            depths = [*[open_depth for open_depth in depths if open_depth < depth], depth]
        if line.strip():
            previous = line
        index += len(line) + 1


def _is_misplaced(line: str, depths: list[int], previous: str, language_id: str) -> bool:
    """Whether a line's depth fits neither an open block nor the line before it."""
    depth = _depth(line)
    if not depths or line.lstrip()[0] in "#*/)]}.":
        return False
    if depth < depths[-1]:
        return depth not in depths and depth > depths[0]
    if language_id not in _INDENTED_LANGUAGES:
        return False
    opens = previous.split("#", maxsplit=1)[0].rstrip().endswith(":")
    if previous.rstrip().endswith("\\") or "#" in previous:
        return False
    return depth <= depths[-1] if opens else depth > depths[-1]


def _broken_word(document: _Document) -> Iterator[Defect]:
    """Two words run into one that is written nowhere else, where one of them stood by itself."""
    known = set(_WORD.findall(document.text[1:-1]))
    before, after = _LAST_WORD.sub("", document.before), document.after
    known |= set(_WORD.findall(before)) | set(_WORD.findall(_FIRST_WORD.sub("", after, count=1)))
    known |= _KEYWORDS
    tail, head = _LAST_WORD.search(document.before), _FIRST_WORD.match(document.text)
    if tail and head:
        yield from _joined(tail.group(), head.group(), known, known)
    end, rest = re.search(r"\w+\Z", document.text), _FIRST_WORD.match(document.after)
    if end and rest:
        word = end.group()
        if len(word) == len(document.text) and tail:
            word = tail.group() + word
        yield from _joined(word, rest.group(), known, None)


def _joined(
    left: str, right: str, known: set[str], right_words: set[str] | None
) -> Iterator[Defect]:
    """Whether ``left`` and ``right`` make a word that nobody meant.

    Where ``right_words`` is given, the right part has to be one of them, or the left part the
    beginning of a keyword that did not come.
    """
    word = left + right
    is_compound = (
        left[-1] == "_" or right[0] == "_" or (not left[-1].isupper() and right[0].isupper())
    )
    if word in known or is_compound or right[0].isdigit():
        return
    is_right_known = right_words is not None and len(left) >= 2 <= len(right)
    is_two_words = right_words is None or (is_right_known and right in right_words)
    is_begun = len(left) >= 4 and any(k.startswith(left) and k != left for k in _KEYWORDS)
    if is_two_words or is_begun:
        yield Defect("broken_word", word)


def _marks(document: _Document, text: str) -> CodeMarks:
    return code_marks(text, document.language_id)


def _from_line_start(prefix: str) -> str:
    if len(prefix) <= _N_CHARS:
        return prefix
    window = prefix[-_N_CHARS:]
    return window[window.find("\n") + 1 :]


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _dense(text: str) -> str:
    return "".join(text.split())


def _has_letters(text: str) -> bool:
    return _n_letters(text) > 0


def _n_letters(text: str) -> int:
    return sum(character.isalnum() for character in text)


def _kind(line: str) -> str:
    """What a line is indented with: "", "spaces", "tabs" or "both"."""
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    if "\t" not in indent:
        return "spaces" if indent else ""
    return "both" if " " in indent else "tabs"


def _depth(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))
