"""Bytes of tokens to text, one token at a time."""

from __future__ import annotations

import codecs


class Utf8Detokenizer:
    """Decodes UTF-8 whose characters may be split over tokens.

    A character appears when its last byte is there.  What never becomes a character is never
    text: no replacement characters.
    """

    __slots__ = ("_decoder", "_is_broken")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._is_broken = False

    @property
    def is_broken(self) -> bool:
        """Whether bytes came that no valid UTF-8 contains; nothing is decoded after them."""
        return self._is_broken

    def feed(self, piece: bytes) -> str:
        """The characters that ``piece`` completes."""
        if self._is_broken:
            return ""
        try:
            return self._decoder.decode(piece)
        except UnicodeDecodeError as error:
            self._is_broken = True
            # The decoder's own buffer is part of ``object``: the bytes before ``start`` are whole.
            return bytes(error.object[: error.start]).decode("utf-8")
