"""Splits a byte stream into messages: one per line, or each after a Content-Length header.

The first bytes of the stream tell which: a header begins with "Content-", anything else is a line.
A line that ends with a Content-Length header is no JSON, so headers it is from there on: rubbish
stood before the first one.
Nothing here reads or writes; bytes are fed in, messages come out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Framing = Literal["lines", "headers"]

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A longer message is skipped, so that a wrong header cannot fill the memory."""

_HEADER_START = b"content-"
_HEADER = re.compile(rb"content-length[ \t]*:[ \t]*(\d{1,18})[ \t]*", re.IGNORECASE)
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_SPACE = b" \t\r\n"
_HEADER_AT_END = re.compile(_HEADER.pattern + rb"\r?\Z", re.IGNORECASE)
_MAX_HEADER_BYTES = 8192
_MAX_CUT_BYTES = 64


@dataclass(frozen=True, slots=True)
class Message:
    """One message's bytes."""

    body: bytes


@dataclass(frozen=True, slots=True)
class BrokenFrame:
    """Bytes that are no message, and why."""

    reason: str


class MessageSplitter:
    """Feed it bytes as they arrive; it returns what they complete."""

    def __init__(self, *, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.framing: Framing | None = None
        """None until the first bytes have told."""
        self._max_message_bytes = max_message_bytes
        self._buffer = bytearray()
        self._n_searched = 0
        """Bytes of the buffer that are known to hold no line end."""
        self._n_body: int | None = None
        """Length of the body whose header was read."""
        self._n_skip = 0
        """Bytes of an oversized body that are still to come."""
        self._skipping_line = False
        self._lost = False
        """Whether the next header is being searched for after a broken one."""

    def feed(self, data: bytes) -> list[Message | BrokenFrame]:
        """Return the messages that ``data`` completes."""
        self._buffer += data
        if self.framing is None:
            self._detect()
        if self.framing is None:
            return []
        return self._split_lines() if self.framing == "lines" else self._split_headers()

    def finish(self) -> list[Message | BrokenFrame]:
        """Return what the end of the stream completes: a last line needs no line end."""
        found = self.feed(b"")
        rest = bytes(self._buffer).strip(_SPACE)
        self._buffer.clear()
        if self._n_skip or self._skipping_line or self._lost:
            return found
        if self.framing == "headers" and (rest or self._n_body is not None):
            return [*found, BrokenFrame("the stream ended within a message.")]
        if not rest:
            return found
        return [*found, Message(rest)]

    def _detect(self) -> None:
        start = self._buffer.lstrip(_SPACE)[: len(_HEADER_START)].lower()
        if not start:
            return
        if start == _HEADER_START:
            self.framing = "headers"
        elif not _HEADER_START.startswith(start):
            self.framing = "lines"

    def _split_lines(self) -> list[Message | BrokenFrame]:
        found: list[Message | BrokenFrame] = []
        while (end := self._buffer.find(b"\n", self._n_searched)) >= 0:
            n_before = max(0, end - _MAX_CUT_BYTES)
            header = _HEADER_AT_END.search(bytes(self._buffer[n_before:end]))
            if header is not None:
                return [*found, *self._turn_to_headers(n_before + header.start())]
            line = bytes(self._buffer[:end]).strip(_SPACE)
            del self._buffer[: end + 1]
            self._n_searched = 0
            if self._skipping_line:
                self._skipping_line = False
            elif len(line) > self._max_message_bytes:
                found.append(self._too_long())
            elif line:
                found.append(Message(line))
        self._n_searched = len(self._buffer)
        if len(self._buffer) > self._max_message_bytes:
            self._buffer.clear()
            self._n_searched = 0
            if not self._skipping_line:
                self._skipping_line = True
                found.append(self._too_long())
        return found

    def _turn_to_headers(self, n_rubbish: int) -> list[Message | BrokenFrame]:
        rubbish = bytes(self._buffer[:n_rubbish]).strip(_SPACE)
        del self._buffer[:n_rubbish]
        self.framing = "headers"
        told = self._skipping_line or not rubbish
        self._skipping_line = False
        broken = [] if told else [BrokenFrame("bytes before a Content-Length header.")]
        return [*broken, *self._split_headers()]

    def _split_headers(self) -> list[Message | BrokenFrame]:
        found: list[Message | BrokenFrame] = []
        while self._advance(found):
            pass
        return found

    def _advance(self, found: list[Message | BrokenFrame]) -> bool:
        """Take one header, body or piece of rubbish; False where more bytes are needed."""
        if self._n_skip:
            n_dropped = min(self._n_skip, len(self._buffer))
            del self._buffer[:n_dropped]
            self._n_skip -= n_dropped
            return self._n_skip == 0
        if self._lost:
            return self._find_next_header()
        if self._n_body is None:
            return self._take_header(found)
        if len(self._buffer) < self._n_body:
            return False
        found.append(Message(bytes(self._buffer[: self._n_body])))
        del self._buffer[: self._n_body]
        self._n_body = None
        return True

    def _take_header(self, found: list[Message | BrokenFrame]) -> bool:
        n_space = len(self._buffer) - len(self._buffer.lstrip(_SPACE))
        del self._buffer[:n_space]
        blank_line = _BLANK_LINE.search(self._buffer, 0, _MAX_HEADER_BYTES)
        if blank_line is None:
            if len(self._buffer) < _MAX_HEADER_BYTES:
                return False
            self._lost = True
            found.append(BrokenFrame("a header without an end."))
            return True
        length = _content_length(bytes(self._buffer[: blank_line.start()]))
        del self._buffer[: blank_line.end()]
        if length is None:
            self._lost = True
            found.append(BrokenFrame("a header without a valid Content-Length."))
        elif length > self._max_message_bytes:
            self._n_skip = length
            found.append(self._too_long())
        else:
            self._n_body = length
        return True

    def _find_next_header(self) -> bool:
        """Drop bytes up to the next header; False where none is in sight yet."""
        header = _HEADER.search(self._buffer)
        if header is None:
            # A header may be cut in two by the end of what has arrived.
            del self._buffer[:-_MAX_CUT_BYTES]
            return False
        del self._buffer[: header.start()]
        self._lost = False
        return True

    def _too_long(self) -> BrokenFrame:
        return BrokenFrame(f"a message longer than {self._max_message_bytes} bytes.")


def frame(body: bytes, framing: Framing | None) -> bytes:
    """Return a message as it is written; lines where the stream's framing is not known yet."""
    if framing == "headers":
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    return body + b"\n"


def _content_length(header: bytes) -> int | None:
    for line in header.splitlines():
        if match := _HEADER.fullmatch(line):
            return int(match.group(1))
    return None
