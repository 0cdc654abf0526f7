"""Splits a byte stream into messages: LSP's base protocol, or one message per line.

The decoder does no I/O: it takes bytes and yields message bodies.

A header block may hold only the two headers that LSP defines.  A block with any other header is
refused together with its body, so that HTTP that reaches the server by some relay cannot smuggle
in a message: the request line and the Host header are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

_MAX_HEADER_BYTES: Final = 8192
MAX_BODY_BYTES: Final = 256 * 1024 * 1024
_KNOWN_HEADERS: Final = frozenset({b"content-length", b"content-type"})
_HEADER_START: Final = b"content-"
_HEADER_END: Final = re.compile(rb"\r\n\r\n|\n\n")
_LENGTH_AT_END: Final = re.compile(
    rb"content-length[ \t]*:[ \t]*\d{1,18}[ \t]*\r?\Z", re.IGNORECASE
)
_MAX_LENGTH_LINE: Final = 64
_SPACE: Final = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class FramingProblem:
    """Why some bytes, which the decoder skipped, are not a message."""

    reason: str


class FrameDecoder:
    """Splits a stream into message bodies.

    After a problem the decoder continues with the next header block or line.  A refused body is
    skipped if its length is known.
    With ``lines`` the first bytes decide how the stream is framed: a header begins with
    ``Content-``, anything else is a line.
    """

    def __init__(
        self,
        *,
        lines: bool = False,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.framing: Literal["headers", "lines"] | None = None if lines else "headers"
        """None until the first bytes arrive."""
        self.max_body_bytes = max_body_bytes
        self._buffer = bytearray()
        self._n_searched = 0
        """Bytes of the buffer that hold no line end."""
        self._n_body: int | None = None
        """Bytes of the body whose header was read."""
        self._n_skip = 0
        self._in_garbage = False

    def feed(self, data: bytes) -> Iterator[bytes | FramingProblem]:
        """Add bytes; yield each message and each problem that they complete."""
        self._buffer += data
        if self.framing is None:
            start = bytes(self._buffer.lstrip(_SPACE)[: len(_HEADER_START)]).lower()
            if start == _HEADER_START:
                self.framing = "headers"
            elif not _HEADER_START.startswith(start):
                self.framing = "lines"
        if self.framing == "lines":
            yield from self._lines()
        if self.framing == "headers":
            yield from self._frames()

    def finish(self) -> Iterator[bytes | FramingProblem]:
        """End the stream; the last line needs no line end."""
        rest = bytes(self._buffer).strip(_SPACE)
        self._buffer.clear()
        if self._n_skip or self._in_garbage:
            return
        if self.framing == "headers" and (rest or self._n_body is not None):
            yield FramingProblem("the input ends within a message")
        elif rest:
            yield rest

    def framed(self, body: bytes) -> bytes:
        """Return a message framed as the stream that came in is."""
        return frame(body) if self.framing == "headers" else body + b"\n"

    def _cut(self, end: int) -> bytes:
        """Take the first ``end`` bytes out of the buffer."""
        taken = bytes(self._buffer[:end])
        del self._buffer[:end]
        return taken

    def _lines(self) -> Iterator[bytes | FramingProblem]:
        while (end := self._buffer.find(b"\n", self._n_searched)) >= 0:
            self._n_searched = 0
            if _LENGTH_AT_END.search(self._buffer, max(0, end - _MAX_LENGTH_LINE), end):
                self.framing = "headers"  # other output came before the first header
                return
            line = self._cut(end + 1).strip(_SPACE)
            if len(line) > self.max_body_bytes and not self._in_garbage:
                yield self._too_long(len(line))
            elif line and not self._in_garbage:
                yield line
            self._in_garbage = False
        self._n_searched = len(self._buffer)
        if self._n_searched > self.max_body_bytes:
            if not self._in_garbage:
                yield self._too_long(self._n_searched)
            self._in_garbage = True
            self._buffer.clear()
            self._n_searched = 0

    def _frames(self) -> Iterator[bytes | FramingProblem]:
        while True:
            self._n_skip -= len(self._cut(self._n_skip))
            if self._n_skip:
                return
            if self._n_body is not None:
                if len(self._buffer) < self._n_body:
                    return
                body = self._cut(self._n_body)
                self._n_body = None
                yield body
            found = _HEADER_END.search(self._buffer)
            if found is None:
                if len(self._buffer) > _MAX_HEADER_BYTES:
                    # Keep the last bytes: they may begin the empty line that ends the garbage.
                    del self._buffer[:-3]
                    if not self._in_garbage:
                        yield FramingProblem(f"no end of header in {_MAX_HEADER_BYTES} bytes")
                    self._in_garbage = True
                return
            block = self._cut(found.end())
            if not self._in_garbage:
                yield from self._read_block(block)
            self._in_garbage = False

    def _read_block(self, block: bytes) -> Iterator[FramingProblem]:
        """Read a header block, and yield what is wrong with it."""
        stray, block = _split_stray_bytes(block)
        n_body: int | None = None
        problem: str | None = None
        for line in filter(bytes.strip, block.splitlines()):
            name, colon, value = (part.strip() for part in line.partition(b":"))
            if not colon or name.lower() not in _KNOWN_HEADERS:
                problem = f"unknown header line {line[:80]!r}"
            elif name.lower() == b"content-length":
                if value.isdigit() and len(value) <= 18:
                    n_body = int(value)
                else:
                    problem = f"Content-Length is no number: {value[:80]!r}"
        if n_body is None:
            yield FramingProblem(problem or "header without Content-Length")
        elif problem is not None or n_body > self.max_body_bytes:
            self._n_skip = n_body
            yield self._too_long(n_body) if problem is None else FramingProblem(problem)
        else:
            self._n_body = n_body
            if stray:
                yield FramingProblem(f"{stray[:80]!r} before a header")

    def _too_long(self, n_bytes: int) -> FramingProblem:
        return FramingProblem(
            f"a message of {n_bytes} bytes is too long; the limit is {self.max_body_bytes}"
        )


def frame(body: bytes) -> bytes:
    """Return a body with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _split_stray_bytes(block: bytes) -> tuple[bytes, bytes]:
    """Split off what stands before ``Content-Length`` on the first line of a header block.

    Without this, one broken header would make every later message unreadable: its body, whose
    length is unknown, stands directly before the next header.
    """
    first_line, newline, rest = block.lstrip(_SPACE).partition(b"\n")
    match = _LENGTH_AT_END.search(first_line)
    if match is None or not first_line[: match.start()].strip():
        return b"", block
    return first_line[: match.start()], first_line[match.start() :] + newline + rest
