"""Loads a model's vocabulary without its weights, and compares vocabularies."""

from __future__ import annotations

import ctypes
import hashlib
import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as llama

from speclsp.backends.llama.library import collected_lines, start_backends
from speclsp.backends.llama.model_file import Value, check_model_file, load_error, read_gguf_header
from speclsp.drafting.drafter import TokenArray
from speclsp.errors import ModelLoadError
from speclsp.vocabulary_protocol import FimTokenIds

_TYPE_NAMES = {0: "none", 1: "SPM", 2: "BPE", 3: "WPM", 4: "UGM", 5: "RWKV", 6: "PLAMO2", 7: "test"}
_TYPES_WITH_BYTE_TOKENS = frozenset({"SPM", "UGM"})
_ATTR_UNKNOWN, _ATTR_CONTROL, _ATTR_USER_DEFINED = 1 << 0, 1 << 3, 1 << 4
_ATTRS_SPECIAL = _ATTR_UNKNOWN | _ATTR_CONTROL | _ATTR_USER_DEFINED
_MAX_TEXT_BYTES = 1 << 30
# Put before the text of tokenizers that prefix a space, so that the space lands here.
_LEAD_IN = "\n"
# A draft model's vocabulary may differ this much from the target's (llama.cpp's
# ``common/speculative.cpp``); models of one family name the first ids differently.
_MAX_SIZE_DIFFERENCE = 128
_FIRST_TOKEN_COMPARED = 5


class LlamaVocabulary:
    """Implements :class:`speclsp.vocabulary_protocol.Vocabulary`, for any thread.

    It owns a separate model without weights, so it outlives the weights.  The model is freed with
    the last reference to this object, which each caller holds during a call.
    """

    def __init__(self, model: int, metadata: Mapping[str, Value]) -> None:
        weakref.finalize(self, llama.llama_model_free, model)
        self._pointer = pointer = int(llama.llama_model_get_vocab(model))
        self.n_tokens = int(llama.llama_vocab_n_tokens(pointer))
        """How many token ids there are."""
        self.type_name = _TYPE_NAMES.get(int(llama.llama_vocab_type(pointer)), "unknown")
        """llama.cpp's kind of tokenizer: ``BPE``, ``SPM``, ``WPM``, ``UGM``, ``RWKV`` …."""
        self.metadata: Mapping[str, str] = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in metadata.items()
            if value is not None
        }
        """The GGUF's scalar metadata as text, booleans as ``true`` or ``false``."""
        ids = range(self.n_tokens)
        self._texts: tuple[bytes, ...] = tuple(
            llama.llama_vocab_get_text(pointer, token) for token in ids
        )
        attributes = np.fromiter(
            (llama.llama_vocab_get_attr(pointer, token) for token in ids),
            dtype=np.int32,
            count=self.n_tokens,
        )
        self.fingerprint = _fingerprint(self.type_name, self._texts, attributes)
        """A hash of the type and all tokens: equal for equal vocabularies."""
        self._special: dict[bytes, int] = {
            self._texts[token]: int(token) for token in np.flatnonzero(attributes & _ATTRS_SPECIAL)
        }
        self.end_tokens = frozenset(id_ for id_ in ids if llama.llama_vocab_is_eog(pointer, id_))
        """Tokens that end a generation (llama.cpp's end-of-generation tokens)."""
        self.bos_token = _id_or_none(llama.llama_vocab_bos(pointer))
        """The beginning-of-sequence token, whether a prompt starts with it or not."""
        self.eos_token = _id_or_none(llama.llama_vocab_eos(pointer))
        """The end-of-sequence token."""
        self.adds_bos = bool(llama.llama_vocab_get_add_bos(pointer))
        """Whether a prompt starts with the beginning-of-sequence token."""
        self.adds_eos = bool(llama.llama_vocab_get_add_eos(pointer))
        """Whether a prompt ends with the end-of-sequence token."""
        self.bos = self.bos_token if self.adds_bos else None
        """The beginning-of-sequence token, where a prompt starts with it; else None."""
        self.fim = FimTokenIds(
            prefix=_id_or_none(llama.llama_vocab_fim_pre(pointer)),
            suffix=_id_or_none(llama.llama_vocab_fim_suf(pointer)),
            middle=_id_or_none(llama.llama_vocab_fim_mid(pointer)),
            pad=_id_or_none(llama.llama_vocab_fim_pad(pointer)),
            repo=_id_or_none(llama.llama_vocab_fim_rep(pointer)),
            separator=_id_or_none(llama.llama_vocab_fim_sep(pointer)),
        )
        """The fill-in-the-middle tokens: named by the GGUF, or recognised by llama.cpp."""
        self._pieces: list[bytes | None] = [None] * self.n_tokens
        self._check_byte_tokens()
        self._lead_in = self._find_lead_in()

    def tokenize(self, text: str) -> TokenArray:
        """Return the tokens of plain text; names of special tokens in it are text.

        Neither BOS nor a leading space is added: the joined pieces of the tokens equal the text.
        Lone surrogates become question marks.
        """
        if not self._lead_in:
            return _tokenize(self._pointer, text)
        tokens = _tokenize(self._pointer, _LEAD_IN + text)
        n_lead_in = len(self._lead_in)
        if tuple(tokens[:n_lead_in].tolist()) == self._lead_in:
            return tokens[n_lead_in:]
        # The start of the text merged with the lead-in: accept the leading space.
        return _tokenize(self._pointer, text)

    def tokenize_prompt(self, text: str, *, adds_special: bool, parses_special: bool) -> TokenArray:
        """Return the tokens of a text as llama.cpp makes them of a prompt.

        With ``adds_special`` they begin as a prompt does, with ``parses_special`` names of special
        tokens are such tokens.
        """
        return _tokenize(
            self._pointer, text, adds_special=adds_special, parses_special=parses_special
        )

    def special(self, text: str) -> int | None:
        """The id of the control or user-defined token whose text is exactly ``text``."""
        return self._special.get(text.encode("utf-8", "replace"))

    def text(self, token: int) -> str:
        """The token as the vocabulary spells it, for messages and comparisons."""
        return self._texts[token].decode("utf-8", "replace")

    def piece(self, token: int) -> bytes:
        """The bytes that a token adds to the text; empty for control tokens.

        Raises IndexError for an id that does not exist.
        """
        if token < 0:
            raise IndexError(f"token {token} is not in a vocabulary of {self.n_tokens}")
        piece = self._pieces[token]
        if piece is None:
            piece = _read_piece(self._pointer, token)
            self._pieces[token] = piece
        return piece

    def _check_byte_tokens(self) -> None:
        # llama.cpp looks up the tokens of unknown bytes unchecked, and would end the process.
        if self.type_name not in _TYPES_WITH_BYTE_TOKENS:
            return
        texts = frozenset(self._texts)
        for byte in range(256):
            if f"<0x{byte:02X}>".encode() not in texts and bytes((byte,)) not in texts:
                raise ModelLoadError(
                    f"The model's vocabulary has no token for the byte 0x{byte:02X}.",
                    remedy="Convert the model again, or download another file of it.",
                )

    def _find_lead_in(self) -> tuple[int, ...]:
        """Return the lead-in's tokens where the vocabulary prefixes a space, else ()."""
        first = _tokenize(self._pointer, "a")
        if not len(first) or not self.piece(int(first[0])).startswith(b" "):
            return ()
        return tuple(_tokenize(self._pointer, _LEAD_IN).tolist())


def load_vocabulary(path: Path) -> LlamaVocabulary:
    """Load the vocabulary of a GGUF file, without its weights.

    Raises :class:`~speclsp.errors.ModelNotFoundError` and
    :class:`~speclsp.errors.ModelLoadError`.
    """
    check_model_file(path)
    metadata = read_gguf_header(path).metadata
    start_backends()
    params = llama.llama_model_default_params()
    params.vocab_only = True
    with collected_lines() as lines:
        model = llama.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise load_error(path, [line for level, line in lines if level == "error"])
    if llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model)) == 0:
        llama.llama_model_free(model)
        raise ModelLoadError(
            f"The model {path} has no vocabulary.",
            remedy="Choose a text generation model whose tokenizer is in the GGUF.",
        )
    return LlamaVocabulary(model, metadata)


def vocabulary_difference(target: Any, draft: Any) -> str:
    """Return the first difference that matters to drafts in token ids; "" if there is none."""
    if target.fingerprint == draft.fingerprint and target.bos == draft.bos:
        return ""
    if target.type_name != draft.type_name:
        return f"the target's tokenizer is {target.type_name}, the draft's {draft.type_name}"
    for name in ("bos", "eos"):
        adds = [getattr(each, f"adds_{name}") for each in (target, draft)]
        ids = [getattr(each, f"{name}_token") for each in (target, draft)]
        # The id matters only where a prompt gets the token, as upstream has it.
        if adds[0] != adds[1] or (adds[0] and ids[0] != ids[1]):
            use = [
                f"adds {name.upper()} {token}" if is_added else f"adds no {name.upper()}"
                for is_added, token in zip(adds, ids, strict=True)
            ]
            return f"the target {use[0]}, the draft {use[1]}"
    if abs(target.n_tokens - draft.n_tokens) > _MAX_SIZE_DIFFERENCE:
        return (
            f"the target has {target.n_tokens} tokens, the draft {draft.n_tokens}, more than "
            f"{_MAX_SIZE_DIFFERENCE} apart"
        )
    for token in range(_FIRST_TOKEN_COMPARED, min(target.n_tokens, draft.n_tokens)):
        if target.text(token) != draft.text(token):
            return (
                f"token {token} is {target.text(token)!r} in the target and "
                f"{draft.text(token)!r} in the draft"
            )
    return ""


def _id_or_none(token: int) -> int | None:
    return None if token == llama.LLAMA_TOKEN_NULL else int(token)


def _fingerprint(type_name: str, texts: tuple[bytes, ...], attributes: Any) -> str:
    digest = hashlib.blake2b(type_name.encode(), digest_size=16)
    lengths = np.fromiter(map(len, texts), dtype="<u4", count=len(texts))
    digest.update(lengths.tobytes())
    digest.update(b"".join(texts))
    digest.update(attributes.astype("<i4").tobytes())
    return digest.hexdigest()


def _tokenize(
    pointer: int, text: str, *, adds_special: bool = False, parses_special: bool = False
) -> TokenArray:
    data = text.encode("utf-8", "replace")
    if not data:
        return np.zeros(0, dtype=np.int32)
    if len(data) > _MAX_TEXT_BYTES:
        raise ValueError(f"text of {len(data)} bytes is too long to tokenize at once")
    # At most one token per byte, and a space or two that some vocabularies add.
    n_room = len(data) + 8
    buffer = np.empty(n_room, dtype=np.int32)
    n_tokens = llama.llama_tokenize(
        pointer,
        data,
        len(data),
        buffer.ctypes.data_as(llama.llama_token_p),
        n_room,
        adds_special,
        parses_special,
    )
    if n_tokens < 0:
        raise ValueError(f"llama_tokenize needs room for {-n_tokens} tokens of {len(data)} bytes")
    return buffer[:n_tokens].copy()


def _read_piece(pointer: int, token: int) -> bytes:
    n_room = 64
    while True:
        buffer = ctypes.create_string_buffer(n_room)
        n_bytes = llama.llama_token_to_piece(pointer, token, buffer, n_room, 0, False)  # special
        if n_bytes >= 0:
            return buffer.raw[:n_bytes]
        n_room = -n_bytes
