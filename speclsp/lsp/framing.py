"""LSP's base protocol without I/O: bytes in, message bodies out.

Only the two headers that the protocol knows are taken.  A block with any other header is refused
as a whole, so that a web page that POSTs to a server listening on loopback cannot smuggle in a
message: its request line and its Host header are not ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_MAX_HEADER_BYTES = 8192
_MAX_BODY_BYTES = 256 * 1024 * 1024
_KNOWN_HEADERS = frozenset({b"content-length", b"content-type"})


@dataclass(frozen=True, slots=True)
class FramingProblem:
    """Bytes that are no frame; they were skipped."""

    reason: str


class FrameDecoder:
    """Cuts a stream of bytes into message bodies.

    After a problem it goes on with the next header block; a body that is refused is skipped over
    where its length is known.
    """

    def __init__(
        self, *, max_header_bytes: int = _MAX_HEADER_BYTES, max_body_bytes: int = _MAX_BODY_BYTES
    ) -> None:
        self._max_header_bytes = max_header_bytes
        self._max_body_bytes = max_body_bytes
        self._buffer = bytearray()
        self._n_body: int | None = None
        self._n_skip = 0
        self._in_garbage = False

    def feed(self, data: bytes) -> Iterator[bytes | FramingProblem]:
        """Take more bytes; yield each body, and each problem, that they complete."""
        self._buffer += data
        while True:
            if self._n_skip:
                n = min(self._n_skip, len(self._buffer))
                del self._buffer[:n]
                self._n_skip -= n
                if self._n_skip:
                    return
            if self._n_body is None:
                outcome = self._take_header()
                if isinstance(outcome, FramingProblem):
                    yield outcome
                if outcome is None:
                    return
                continue
            if len(self._buffer) < self._n_body:
                return
            body = bytes(self._buffer[: self._n_body])
            del self._buffer[: self._n_body]
            self._n_body = None
            yield body

    def _take_header(self) -> FramingProblem | bool | None:
        """Take one header block: True when done, None when more bytes are needed."""
        end, n_separator = self._header_end()
        if end < 0:
            if len(self._buffer) <= self._max_header_bytes:
                return None
            # Keep the last bytes: they may begin the empty line that ends the garbage.
            del self._buffer[:-3]
            if self._in_garbage:
                return None
            self._in_garbage = True
            return FramingProblem(f"no end of header in {self._max_header_bytes} bytes")
        block = bytes(self._buffer[:end])
        del self._buffer[: end + n_separator]
        if self._in_garbage:
            self._in_garbage = False
            return True
        return self._read_block(block)

    def _header_end(self) -> tuple[int, int]:
        crlf = self._buffer.find(b"\r\n\r\n")
        lf = self._buffer.find(b"\n\n", 0, crlf + 2 if crlf >= 0 else len(self._buffer))
        if lf >= 0 and (crlf < 0 or lf < crlf):
            return lf, 2
        return crlf, 4

    def _read_block(self, block: bytes) -> FramingProblem | bool:
        n_body: int | None = None
        problem: FramingProblem | None = None
        for line in block.splitlines():
            name, colon, value = line.partition(b":")
            key = name.strip().lower()
            if not line.strip():
                continue
            if not colon or key not in _KNOWN_HEADERS:
                problem = FramingProblem(f"unknown header line {line[:80]!r}")
            elif key == b"content-length":
                if value.strip().isdigit() and len(value.strip()) <= 18:
                    n_body = int(value)
                else:
                    problem = FramingProblem(f"Content-Length is no number: {value[:80]!r}")
        if n_body is None:
            return problem or FramingProblem("header without Content-Length")
        if problem is None and n_body > self._max_body_bytes:
            problem = FramingProblem(f"a message of {n_body} bytes is too long")
        if problem is not None:
            self._n_skip = n_body
            return problem
        self._n_body = n_body
        return True


def frame(body: bytes) -> bytes:
    """Return a body with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
