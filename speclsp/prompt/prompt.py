"""The prompt of one request: the family's template filled in within a token budget.

A prompt is laid out anew, or continues a former one, from which it differs after the anchor only,
so that the KV cache is reused up to there.  The anchored layout can continue a prompt as long as
the text before the anchor and after the cursor is what the former prompt shows: the model never
sees text that is not in the buffer.  Closing brackets and quotes are left out if nothing else
follows on the cursor's line: editors insert them with every opening bracket, and the model's own
replace them.  If Enter has just moved them to a line of their own, they are left out until idle
time lays out the prompt anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from speclsp.errors import SettingsError
from speclsp.prompt.chunks import NO_CHUNKS, ContextChunk, ShownChunks
from speclsp.prompt.excerpts import (
    CHARS_PER_TOKEN,
    EMPTY_EXCERPT,
    TextExcerpt,
    n_hidden_closers,
    n_hidden_with_next_line,
    new_anchor,
    prefix_excerpt,
    same_excerpt,
    suffix_excerpt,
)
from speclsp.prompt.families import FimFamily
from speclsp.prompt.template import FieldName, FieldPart, Values, encode_text, filled
from speclsp.settings import FimLayout
from speclsp.vocabulary_protocol import Vocabulary

_N_NAME_CHARS: Final = 256
"""Most characters of a path or a repository name; a path keeps its end."""

SUFFIX_SHARE: Final = 0.25
"""Of the tokens that are left for the text, for the part after the cursor, at most."""

_N_MIDDLE_TOKENS: Final = 200
"""Most tokens between anchor and cursor, and at most a quarter of those before the cursor."""

_RESERVED: Final = 0.6
"""Share of them that a new layout leaves free for typing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBudget:
    """Most tokens of a prompt, and of the context from other files in it, 0 for none.

    The prefix has what special tokens, names, chunks and the suffix leave.
    """

    n_prompt: int
    n_chunks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FimText:
    """The document of a prompt: the whole texts before and after the cursor, and its names."""

    repo_name: str
    path: str
    prefix: str
    suffix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptExcerpt:
    """All of a prompt but the middle, for the next prompts of the same document."""

    key: tuple[str, str]
    """Identifies vocabulary, family and layout of the tokens."""
    n_limit: int
    """Most tokens that the prompt could have when it was laid out."""
    prefix: TextExcerpt
    """Ends at the anchor."""
    suffix: TextExcerpt
    chunks: ShownChunks

    @property
    def anchor(self) -> int:
        """Index in the document of the first character that follows the middle token."""
        return self.prefix.end


@dataclass(frozen=True, slots=True, kw_only=True)
class FimPrompt:
    """A prompt, and its excerpt for the next prompts of the same document."""

    tokens: tuple[int, ...]
    excerpt: PromptExcerpt
    n_prefix: int
    """Tokens of the text before the anchor."""
    n_middle: int
    """Tokens of the text between the anchor and the cursor."""
    n_middle_max: int
    """Most tokens of the middle."""
    n_room: int
    """Tokens that can still be typed before the anchor has to move."""
    n_suffix: int
    n_prefix_chars: int
    """Characters before the cursor in the prompt, with those of the middle."""
    n_suffix_chars: int
    """Characters after the cursor in the prompt, with the closers that are left out."""
    hides_line: bool
    """Whether it leaves out a line of closers below the cursor's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLayout:
    """How a model's prompts are laid out."""

    family: FimFamily
    vocabulary: Vocabulary
    layout: FimLayout

    @property
    def key(self) -> tuple[str, str]:
        """Identifies vocabulary, family and layout."""
        return (self.vocabulary.fingerprint, f"{self.family.name} {self.layout}")

    def encode_chunk(self, chunk: ContextChunk) -> tuple[int, ...]:
        """Return a chunk's tokens, with its path, for the prompt."""
        values: Values = {"path": _one_line(chunk.path), "text": chunk.text}
        return filled(self.vocabulary, self.family.chunk, values)

    def continued(
        self, text: FimText, budget: PromptBudget, excerpt: PromptExcerpt
    ) -> FimPrompt | None:
        """Return the prompt that differs from ``excerpt``'s after the anchor only.

        None if the text before the anchor or after the cursor has changed, if too much text
        stands between anchor and cursor, and in the plain layout.
        """
        if self.layout == "plain" or excerpt.key != self.key:
            return None
        prefix = same_excerpt(text.prefix, excerpt.prefix)
        n_hidden = _n_hidden_before(excerpt.suffix.text, text.suffix)
        if prefix is None or n_hidden is None:
            return None
        frame, room = self._frame(text, budget, excerpt.chunks)
        n_before = room - len(excerpt.suffix.tokens)
        n_middle_max = _n_middle_max(n_before)
        if prefix.end > len(text.prefix) or (
            len(text.prefix) - prefix.end > n_middle_max * CHARS_PER_TOKEN * 2
        ):
            return None
        middle = self._encoded_middle(text.prefix, prefix.end)
        if len(middle) > min(n_middle_max, n_before - len(prefix.tokens)):
            return None
        return self._prompt(
            text, frame, replace(excerpt, prefix=prefix), middle, n_hidden, n_before
        )

    def fresh(
        self,
        text: FimText,
        budget: PromptBudget,
        *,
        near: PromptExcerpt | None,
        chunks: ShownChunks,
    ) -> FimPrompt:
        """Lay out a prompt of ``budget.n_prompt`` tokens at most with an anchor near the cursor.

        Excerpts keep the bounds of ``near``, the excerpt of a former prompt, if possible.
        Of ``chunks`` the prompt takes the first ones that fit.
        Raises :class:`~speclsp.errors.SettingsError` if not even the special tokens fit.
        """
        near_prefix = near_suffix = EMPTY_EXCERPT
        if near is not None and near.key == self.key:
            near_prefix, near_suffix = near.prefix, near.suffix
        is_plain = self.layout == "plain"
        n_hidden = 0 if is_plain else n_hidden_closers(text.suffix)
        chunks = self._fitting_chunks(text, budget, chunks)
        frame, room = self._frame(text, budget, chunks)
        suffix = suffix_excerpt(
            text.suffix[n_hidden:],
            near_suffix,
            int(room * SUFFIX_SHARE),
            lambda part: encode_text(self.vocabulary, part, spaced=self._is_spaced("suffix")),
        )
        n_before = room - len(suffix.tokens)
        n_middle_max = _n_middle_max(n_before)
        anchor, middle = len(text.prefix), self._encoded_middle("", 0)
        if not is_plain:
            anchor, middle = new_anchor(
                text.prefix,
                n_middle_max,
                int(n_middle_max * (1 - _RESERVED / 2)),
                lambda place: self._encoded_middle(text.prefix, place),
            )
        prefix = prefix_excerpt(
            text.prefix,
            anchor,
            near_prefix,
            n_before - len(middle) - (0 if is_plain else int(n_middle_max * _RESERVED)),
            lambda part: encode_text(self.vocabulary, part, spaced=self._is_spaced("prefix")),
        )
        excerpt = PromptExcerpt(
            key=self.key, n_limit=budget.n_prompt, prefix=prefix, suffix=suffix, chunks=chunks
        )
        return self._prompt(text, frame, excerpt, middle, n_hidden, n_before)

    def _prompt(
        self,
        text: FimText,
        frame: Values,
        excerpt: PromptExcerpt,
        middle: tuple[int, ...],
        n_hidden: int,
        n_before: int,
    ) -> FimPrompt:
        values: Values = {
            **frame,
            "prefix": excerpt.prefix.tokens,
            "suffix": excerpt.suffix.tokens,
            "middle": middle,
        }
        bos = () if self.family.bos is None else (self.family.bos,)
        n_middle_max = _n_middle_max(n_before)
        n_free = n_before - len(excerpt.prefix.tokens)
        return FimPrompt(
            tokens=(*bos, *filled(self.vocabulary, self.family.body, values)),
            excerpt=excerpt,
            n_prefix=len(excerpt.prefix.tokens),
            n_middle=len(middle),
            n_middle_max=n_middle_max,
            n_room=min(n_middle_max, n_free) - len(middle),
            n_suffix=len(excerpt.suffix.tokens),
            n_prefix_chars=len(text.prefix) - excerpt.prefix.start,
            n_suffix_chars=n_hidden + len(excerpt.suffix.text),
            hides_line=n_hidden > n_hidden_closers(text.suffix),
        )

    def _encoded_middle(self, prefix: str, anchor: int) -> tuple[int, ...]:
        # If no token separates prefix and middle, the first of them with text takes the
        # implicit space.
        spaced = anchor == 0 and self.family.body[-2:-1] == (FieldPart("prefix", spaced=True),)
        return encode_text(self.vocabulary, prefix[anchor:], spaced=spaced)

    def _frame(
        self, text: FimText, budget: PromptBudget, chunks: ShownChunks
    ) -> tuple[Values, int]:
        """Return names and chunks, and how many tokens remain for the text."""
        frame, n_fixed = self._fitting_names(text, budget.n_prompt)
        if chunks.chunks:
            after = filled(self.vocabulary, self.family.after_chunks, frame)
            frame = {**frame, "chunks": (*chunks.tokens, *after)}
            n_fixed += chunks.n_tokens + len(after)
        return frame, max(0, budget.n_prompt - n_fixed)

    def _fitting_names(self, text: FimText, n_prompt: int) -> tuple[Values, int]:
        """Return the names, and how many tokens a prompt without texts has.

        The names are cut so that these are half of the prompt's tokens at most.
        Raises :class:`~speclsp.errors.SettingsError` if not even the special tokens fit.
        """
        n_chars = _N_NAME_CHARS
        while True:
            names = _name_values(text.repo_name, text.path, n_chars)
            values: Values = {**names, "prefix": (), "suffix": (), "middle": ()}
            n_fixed = len(filled(self.vocabulary, self.family.body, values))
            n_fixed += self.family.bos is not None
            if n_fixed <= n_prompt // 2 or n_chars == 0:
                break
            n_chars //= 2
        if n_fixed > n_prompt:
            raise SettingsError(
                f"n_prompt = {n_prompt} is less than the {n_fixed} tokens that every prompt of "
                "this model has.",
                remedy="Raise n_prompt or ctx_size.",
            )
        return names, n_fixed

    def _fitting_chunks(
        self, text: FimText, budget: PromptBudget, chunks: ShownChunks
    ) -> ShownChunks:
        """Return the first chunks that leave half of the prompt to the file itself."""
        if not chunks.chunks or FieldPart("chunks") not in self.family.body:
            return NO_CHUNKS
        _, room = self._frame(text, budget, NO_CHUNKS)
        names = _name_values(text.repo_name, text.path, _N_NAME_CHARS)
        n_after = len(filled(self.vocabulary, self.family.after_chunks, names))
        n_left = min(budget.n_chunks, room - budget.n_prompt // 2) - n_after
        ends = accumulate(len(laid_out.tokens) for laid_out in chunks.chunks)
        return ShownChunks(chunks.chunks[: sum(end <= n_left for end in ends)])

    def _is_spaced(self, field: FieldName) -> bool:
        return FieldPart(field, spaced=True) in self.family.body


def _n_hidden_before(excerpt: str, suffix: str) -> int | None:
    """Return the characters between the cursor and a suffix; None if they are no closers."""
    for n_hidden in (n_hidden_closers(suffix), n_hidden_with_next_line(suffix)):
        if suffix.startswith(excerpt, n_hidden) and (excerpt or len(suffix) == n_hidden):
            return n_hidden
    return None


def _name_values(repo_name: str, path: str, n_chars: int) -> Values:
    """Return the names for the prompt, each with ``n_chars`` characters at most."""
    if n_chars == 0:
        return {"repo": "", "path": "", "chunks": ()}
    repo_name, path = _one_line(repo_name)[:n_chars], _one_line(path)[-n_chars:]
    return {"repo": repo_name or "repository", "path": path or "untitled", "chunks": ()}


def _one_line(name: str) -> str:
    return " ".join(name.splitlines())


def _n_middle_max(n_before: int) -> int:
    return min(_N_MIDDLE_TOKENS, n_before // 4)
