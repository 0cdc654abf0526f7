"""How a cut text becomes tokens: the plain and the anchored layout of a fill-in-the-middle prompt.

Both are those of ``speclsp.prompt``: with the anchored one the prefix ends at a line start at or
above the cursor, and what was typed since follows the middle token.  The weights say how much
each token's prediction counts in the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Encode = Callable[[str], list[int]]
"""Tokens of a text, without special ones."""


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of Qwen2.5-Coder's special tokens."""

    end: int
    prefix: int
    middle: int
    suffix: int
    repo: int
    separator: int
    pad: int


@dataclass(frozen=True, slots=True)
class Weights:
    """What predicting a token counts: the context's, the typed text's and the middle's."""

    context: float = 1.0
    typed: float = 1.0
    middle: float = 4.0
    first: float = 12.0
    """Of the first token behind the middle token, which goes on where the prefix ended."""


@dataclass(slots=True)
class Sample:
    """Tokens, what each is to be followed by, and the weight of that prediction; same lengths."""

    tokens: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, tokens: Sequence[int], weight: float) -> None:
        """Append tokens whose prediction counts ``weight``."""
        for token in tokens:
            if self.tokens:
                self.targets.append(token)
                self.weights.append(weight)
            self.tokens.append(token)

    def close(self) -> None:
        """End the sample: nothing is to be predicted behind its last token."""
        self.targets.append(self.tokens[-1])
        self.weights.append(0.0)

    def cut(self, n_tokens: int) -> None:
        """Drop what is beyond ``n_tokens``."""
        del self.tokens[n_tokens:], self.targets[n_tokens:], self.weights[n_tokens:]


@dataclass(frozen=True, slots=True)
class FimText:
    """The texts of one sample.  Without an anchor ``typed`` is empty.

    ``joined``: typed text and middle are tokenised as one, as after token healing.
    """

    repo: str
    path: str
    chunks: tuple[tuple[str, str], ...]
    prefix: str
    typed: str
    middle: str
    suffix: str
    joined: bool


def fim_sample(text: FimText, special: SpecialTokens, encode: Encode, weights: Weights) -> Sample:
    """Lay out one sample.

    The suffix token's target is the middle's first token, not the suffix's: there the prefix's
    end is one token away, and the middle token then has to fetch what was foreseen there.  A
    small model does not find that way by itself.
    """
    sample = Sample()
    _add_head(sample, text, special, encode, weights)
    sample.add([special.prefix], 0.0)
    sample.add(encode(text.prefix), weights.context)
    sample.add([special.suffix], 0.0)
    foreseen_idx = len(sample.tokens) - 1
    sample.add(encode(text.suffix), weights.context)
    sample.add([special.middle], 0.0)
    first_idx = len(sample.tokens)
    if text.joined:
        _add_joined(sample, text, encode, weights)
    else:
        sample.add(encode(text.typed), weights.typed)
        sample.add(encode(text.middle), weights.middle)
    sample.add([special.end], weights.middle)
    sample.close()
    sample.targets[foreseen_idx] = sample.tokens[first_idx]
    sample.weights[foreseen_idx] = weights.middle / 2
    if not text.typed:
        sample.weights[first_idx - 1] = weights.first
    return sample


def document_sample(
    text: FimText, special: SpecialTokens, encode: Encode, weights: Weights
) -> Sample:
    """Lay out a text to be read from left to right: its prefix alone, behind its path."""
    sample = Sample()
    _add_head(sample, text, special, encode, weights)
    sample.add(encode(text.prefix), weights.context)
    sample.close()
    return sample


def _add_head(
    sample: Sample, text: FimText, special: SpecialTokens, encode: Encode, weights: Weights
) -> None:
    sample.add([special.repo, *encode(text.repo + "\n")], 0.0)
    for path, chunk in text.chunks:
        sample.add([special.separator], 0.0)
        sample.add(encode(path + "\n"), 0.0)
        sample.add(encode(chunk + "\n"), weights.context)
    sample.add([special.separator, *encode(text.path + "\n")], 0.0)


def _add_joined(sample: Sample, text: FimText, encode: Encode, weights: Weights) -> None:
    """Typed text and middle as one text; a token that holds some of the middle counts as it."""
    whole = encode(text.typed + text.middle)
    # The tokens that the typed text shares with the whole are those that are not cut by the
    # cursor; the first token that differs reaches into the middle.
    typed = encode(text.typed)
    n_shared = 0
    while n_shared < min(len(typed), len(whole)) and typed[n_shared] == whole[n_shared]:
        n_shared += 1
    sample.add(whole[:n_shared], weights.typed)
    sample.add(whole[n_shared:], weights.middle)
