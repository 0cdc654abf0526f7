from __future__ import annotations

import pytest

from speclsp.lsp.framing import FrameDecoder, FramingProblem, frame

TWO = frame(b'{"a":1}') + frame("é".encode())


def decoded(decoder: FrameDecoder, *chunks: bytes) -> list[bytes | FramingProblem]:
    return [piece for chunk in chunks for piece in decoder.feed(chunk)]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000])
def test_frames_in_any_chunks(n: int) -> None:
    chunks = [TWO[i : i + n] for i in range(0, len(TWO), n)]
    assert decoded(FrameDecoder(), *chunks) == [b'{"a":1}', "é".encode()]


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: 2\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        b"Content-Length:2\n\n",
        b"Content-Length: 2 \r\nContent-Type: x\r\n\r\n",
    ],
)
def test_headers_as_clients_write_them(header: bytes) -> None:
    assert decoded(FrameDecoder(), header + b"{}") == [b"{}"]


def test_empty_body() -> None:
    assert decoded(FrameDecoder(), frame(b"") + frame(b"x")) == [b"", b"x"]


@pytest.mark.parametrize(
    "block",
    [
        b"Content-Length: x\r\n\r\n",
        b"Content-Length: -2\r\n\r\n",
        b"Content-Length: \r\n\r\n",
        b"Content-Length: 99999999999999999999999999\r\n\r\n",
        "Content-Length: ²\r\n\r\n".encode(),
        b"Content-Type: x\r\n\r\n",
        b"hello\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_broken_header_is_one_problem_and_the_next_frame_works(block: bytes) -> None:
    first, second = decoded(FrameDecoder(), block + frame(b"{}"))
    assert isinstance(first, FramingProblem)
    assert second == b"{}"


def test_too_long_body_is_skipped() -> None:
    decoder = FrameDecoder(max_body_bytes=10)
    data = frame(b"x" * 11) + frame(b"y" * 10)
    pieces = decoded(decoder, *(data[i : i + 4] for i in range(0, len(data), 4)))
    assert isinstance(pieces[0], FramingProblem)
    assert pieces[1:] == [b"y" * 10]


def test_huge_length_is_a_problem_at_once_and_keeps_nothing() -> None:
    decoder = FrameDecoder()
    (problem,) = decoded(decoder, b"Content-Length: 999999999999999999\r\n\r\n", b"x" * 1000)
    assert isinstance(problem, FramingProblem)
    assert not decoder._buffer


def test_endless_header_is_one_problem_until_an_empty_line() -> None:
    decoder = FrameDecoder(max_header_bytes=64)
    pieces = decoded(decoder, *[b"garbage " * 4] * 50, b"\r\n\r\n", frame(b"{}"))
    assert isinstance(pieces[0], FramingProblem)
    assert pieces[1:] == [b"{}"]


def test_web_page_cannot_smuggle_a_message_in() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
    post = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    (problem,) = decoded(FrameDecoder(), post)
    assert isinstance(problem, FramingProblem)
