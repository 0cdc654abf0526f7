"""The prompt of one request: the family's layout filled in under a token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from speclsp.errors import SettingsError
from speclsp.fim.anchor import anchor_candidates
from speclsp.fim.families import FimFamily
from speclsp.fim.layout import FieldName, FieldPart, Part, TextPart, TokenPart, encode_text
from speclsp.fim.protocol import Vocabulary
from speclsp.fim.windows import (
    CHARS_PER_TOKEN,
    EMPTY_WINDOW,
    TextWindow,
    prefix_window,
    suffix_window,
)

_Values = Mapping[FieldName, str | tuple[int, ...]]
"""A field's text, to be tokenised with its neighbours, or its tokens."""

_N_NAME_CHARS = 256
"""Most characters of a path or a repository name; a path keeps its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBudget:
    """Most tokens of a prompt, of its part before the cursor and of its part after it.

    ``n_suffix`` 0 stands for a quarter of what the special tokens and names leave, and
    ``n_prefix`` 0 for what the suffix then leaves: three quarters, more near the buffer's end.
    """

    n_prompt: int
    n_prefix: int
    n_suffix: int


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """Context from another file."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptWindow:
    """What one prompt hands to the next of the same document."""

    key: tuple[str, str]
    """Vocabulary and family that the tokens belong to."""
    anchor: int
    prefix: TextWindow
    suffix: TextWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class FimPrompt:
    """A prompt and what the next one of the same document needs to resemble it."""

    tokens: tuple[int, ...]
    window: PromptWindow
    n_prefix: int
    """Tokens of the text before the anchor."""
    n_middle: int
    """Tokens of the text between the anchor and the cursor."""
    n_suffix: int
    n_prefix_chars: int
    """Characters before the cursor that the prompt shows, the middle's among them."""
    n_suffix_chars: int


def build_prompt(
    family: FimFamily,
    vocabulary: Vocabulary,
    *,
    repo_name: str,
    path: str,
    prefix: str,
    suffix: str,
    budget: PromptBudget,
    window: PromptWindow | None,
    chunks: Sequence[PromptChunk] = (),
) -> FimPrompt:
    """Lay out the prompt for a cursor between ``prefix`` and ``suffix``, the whole texts.

    ``window`` is that of the document's previous prompt, or None.  The text goes in with LF line
    ends.  Never longer than ``budget.n_prompt``; raises
    :class:`~speclsp.errors.SettingsError` where not even the special tokens fit.
    """
    key = (vocabulary.fingerprint, family.name)
    if window is None or window.key != key:
        window = PromptWindow(key=key, anchor=-1, prefix=EMPTY_WINDOW, suffix=EMPTY_WINDOW)
    frame = _frame(family, vocabulary, repo_name, path, chunks, budget.n_prompt)
    room = budget.n_prompt - _n_fixed(family, vocabulary, frame)
    suffix_part = suffix_window(
        suffix,
        window.suffix,
        min(budget.n_suffix or room // 4, room),
        lambda text: encode_text(vocabulary, text, spaced=_is_spaced(family, "suffix")),
    )
    room -= len(suffix_part.tokens)
    n_before = min(budget.n_prefix or room, room)
    anchor, middle = _middle(vocabulary, family, prefix, window.anchor, n_before // 2)
    prefix_part = prefix_window(
        prefix,
        anchor,
        window.prefix,
        n_before - len(middle),
        lambda text: encode_text(vocabulary, text, spaced=_is_spaced(family, "prefix")),
    )
    values: _Values = {
        **frame,
        "prefix": prefix_part.tokens,
        "suffix": suffix_part.tokens,
        "middle": middle,
    }
    bos = () if family.bos is None else (family.bos,)
    return FimPrompt(
        tokens=(*bos, *_filled(vocabulary, family.body, values)),
        window=replace(window, anchor=anchor, prefix=prefix_part, suffix=suffix_part),
        n_prefix=len(prefix_part.tokens),
        n_middle=len(middle),
        n_suffix=len(suffix_part.tokens),
        n_prefix_chars=len(prefix) - prefix_part.start,
        n_suffix_chars=len(suffix_part.text),
    )


def _middle(
    vocabulary: Vocabulary, family: FimFamily, prefix: str, previous_anchor: int, n_tokens_max: int
) -> tuple[int, tuple[int, ...]]:
    """The anchor, and the tokens of the text between it and the cursor."""
    tokens: tuple[int, ...] = ()
    for anchor in anchor_candidates(prefix, previous_anchor, n_tokens_max * CHARS_PER_TOKEN):
        # Where no token stands between prefix and middle, the first of them to have text takes
        # the implicit space.
        spaced = anchor == 0 and family.tokens.middle is None and _is_spaced(family, "prefix")
        tokens = encode_text(vocabulary, prefix[anchor:], spaced=spaced)
        if len(tokens) <= n_tokens_max:
            return anchor, tokens
    return len(prefix), ()


def _frame(
    family: FimFamily,
    vocabulary: Vocabulary,
    repo_name: str,
    path: str,
    chunks: Sequence[PromptChunk],
    n_prompt: int,
) -> _Values:
    """Names and chunks, cut so that they take half of the prompt at most."""
    n_chars = _N_NAME_CHARS
    while True:
        names = {"repo": _name(repo_name)[:n_chars], "path": _name(path)[-n_chars:]}
        frame: dict[FieldName, str | tuple[int, ...]] = {
            "repo": names["repo"] or "repository",
            "path": names["path"] or "untitled",
            "chunks": (),
        }
        if n_chars == 0:
            frame["repo"] = frame["path"] = ""
        n_fixed = _n_fixed(family, vocabulary, frame)
        if n_fixed <= n_prompt // 2 or n_chars == 0:
            break
        n_chars //= 2
    if n_fixed > n_prompt:
        raise SettingsError(
            f"n_prompt = {n_prompt} is less than the {n_fixed} tokens that every prompt of this "
            "model has.",
            remedy="Raise n_prompt or ctx_size.",
        )
    frame["chunks"] = _chunks(family, vocabulary, frame, chunks, n_prompt // 2 - n_fixed)
    return frame


def _chunks(
    family: FimFamily,
    vocabulary: Vocabulary,
    frame: _Values,
    chunks: Sequence[PromptChunk],
    n_tokens_max: int,
) -> tuple[int, ...]:
    """Tokens of the first chunks that fit, in their order: a stable head can be reused."""
    after = _filled(vocabulary, family.after_chunks, frame)
    tokens: list[int] = []
    for chunk in chunks:
        values: _Values = {"path": _name(chunk.path), "text": chunk.text}
        chunk_tokens = _filled(vocabulary, family.chunk, values)
        if len(tokens) + len(chunk_tokens) + len(after) > n_tokens_max:
            break
        tokens.extend(chunk_tokens)
    return (*tokens, *after) if tokens else ()


def _n_fixed(family: FimFamily, vocabulary: Vocabulary, frame: _Values) -> int:
    """Tokens of a prompt whose prefix, middle and suffix are empty."""
    values: _Values = {**frame, "prefix": (), "suffix": (), "middle": ()}
    return len(_filled(vocabulary, family.body, values)) + (family.bos is not None)


def _filled(vocabulary: Vocabulary, parts: Sequence[Part], values: _Values) -> tuple[int, ...]:
    """The layout's tokens.  Neighbouring texts and names are tokenised as one text."""
    tokens: list[int] = []
    text = ""
    spaced = False
    for part in parts:
        match part:
            case TextPart(literal):
                text += literal
                continue
            case TokenPart(token):
                filling: str | tuple[int, ...] = (token,)
            case FieldPart(field, is_spaced):
                filling = values.get(field, ())
                spaced = spaced or (is_spaced and not text)
        if isinstance(filling, str):
            text += filling
            continue
        tokens.extend(encode_text(vocabulary, text, spaced=spaced and bool(text)))
        tokens.extend(filling)
        text, spaced = "", False
    tokens.extend(encode_text(vocabulary, text, spaced=spaced))
    return tuple(tokens)


def _is_spaced(family: FimFamily, field: FieldName) -> bool:
    return FieldPart(field, spaced=True) in family.body


def _name(name: str) -> str:
    """A name as it goes into a line of the prompt."""
    return " ".join(name.splitlines())
