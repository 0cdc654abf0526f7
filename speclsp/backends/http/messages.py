"""Requests to remote engines and their answers, in the form that all dialects share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["llama-server", "openai", "ollama", "mistral", "deepseek"]
"""The API that a server speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePrompt:
    """One prompt in all the forms that servers take; secrets are masked already.

    A server that takes token ids gets ``tokens`` where they are known; others get ``text`` where
    that is known, else ``prefix`` and ``suffix`` with ``chunks``.
    """

    prefix: str
    """The text before the cursor, as far as the excerpt reaches."""
    suffix: str
    """The text after the cursor, as far as the excerpt reaches."""
    path: str = ""
    chunks: tuple[tuple[str, str], ...] = ()
    """(path, text) of pieces of other files, the least relevant first."""
    text: str = ""
    """The FIM prompt with its special tokens as text; empty where the family is unknown."""
    tokens: tuple[int, ...] = ()
    """The FIM prompt as token ids; empty where the vocabulary is unknown."""

    @property
    def all_text(self) -> str:
        """All text that may be sent."""
        return "\n".join((self.prefix, self.suffix, self.text, *(text for _, text in self.chunks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteParams:
    """How a prompt is continued.  A server is sent only the sampling parameters that it has."""

    n_predict: int
    """Maximum tokens to generate; 0 evaluates the prompt only (llama-server)."""
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = -1
    """-1 lets the server choose."""
    stop: tuple[str, ...] = ()
    wants_logprobs: bool = False
    begins_with: str = ""
    """What the answer must begin with, for servers that exclude other tokens
    (``RemoteModel.constrains``), as in token healing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One streamed part of an answer.

    Only ``text`` is complete: servers send no token ids (``tokens``) for a character of several
    tokens.  ``logprobs`` are natural logarithms, one for each token sent, where they were
    requested and are available.
    """

    text: str
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteModel:
    """What a server runs, and what it can do."""

    kind: Kind
    name: str
    n_ctx: int = 0
    """Maximum tokens of prompt and answer together; 0 if unknown."""
    n_vocab: int = 0
    """Number of token ids; 0 if unknown."""
    n_slots: int = 0
    """llama-server's slots, each of which keeps one prompt's KV cache; 0 elsewhere."""
    slot: int = -1
    """The slot for this window's requests: the least recently used one when the window connected;
    -1 lets the server choose."""
    takes_tokens: bool = False
    """Whether a prompt may be token ids."""
    takes_text: bool = False
    """Whether a prompt may be text with FIM tokens in it."""
    logprobs: bool = False
    constrains: bool = False
    """Whether it takes ``RemoteParams.begins_with``."""


@dataclass(slots=True, kw_only=True)
class RemoteStats:
    """Times and counts of one stream; 0 for those that the server does not send."""

    ms_first: float = 0.0
    """Milliseconds from the call to the first text."""
    ms_prompt: float = 0.0
    """Milliseconds in which the server evaluated the prompt."""
    ms_network: float = 0.0
    """``ms_first - ms_prompt``: the network and the server's queue."""
    n_prompt: int = 0
    n_cached: int = 0
    """Prompt tokens that the server found in its KV cache."""
    n_generated: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    is_cut: bool = False
    """Whether the text broke off, or the deadline ended it, before the server did."""
