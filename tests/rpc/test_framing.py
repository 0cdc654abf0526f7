import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.rpc.framing import FrameDecoder, FramingProblem, frame

TWO = frame(b'{"a":1}') + frame("é".encode())


def decoded(decoder: FrameDecoder, *chunks: bytes) -> list[bytes | FramingProblem]:
    return [piece for chunk in chunks for piece in decoder.feed(chunk)]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000])
def test_frames_in_any_chunks(n):
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
def test_headers_as_clients_write_them(header):
    assert decoded(FrameDecoder(), header + b"{}") == [b"{}"]


def test_empty_body():
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
def test_broken_header_is_one_problem_and_the_next_frame_works(block):
    first, second = decoded(FrameDecoder(), block + frame(b"{}"))
    assert isinstance(first, FramingProblem)
    assert second == b"{}"


def test_too_long_body_is_skipped():
    decoder = FrameDecoder(max_body_bytes=10)
    data = frame(b"x" * 11) + frame(b"y" * 10)
    pieces = decoded(decoder, *(data[i : i + 4] for i in range(0, len(data), 4)))
    assert isinstance(pieces[0], FramingProblem)
    assert pieces[1:] == [b"y" * 10]


def test_huge_length_is_a_problem_at_once_and_keeps_nothing():
    decoder = FrameDecoder()
    (problem,) = decoded(decoder, b"Content-Length: 999999999999999999\r\n\r\n", b"x" * 1000)
    assert isinstance(problem, FramingProblem)
    assert not decoder._buffer


def test_endless_header_is_one_problem_until_an_empty_line():
    pieces = decoded(FrameDecoder(), *[b"garbage " * 64] * 50, b"\r\n\r\n", frame(b"{}"))
    assert isinstance(pieces[0], FramingProblem)
    assert pieces[1:] == [b"{}"]


def test_web_page_cannot_smuggle_a_message_in():
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
    post = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    (problem,) = decoded(FrameDecoder(), post)
    assert isinstance(problem, FramingProblem)


LINES = b'\n  {"a":1}\r\n\n[2]\n"last"'


def decoded_with_lines(data: bytes, n_chunk: int = 1000, limit: int = 10**6) -> list[object]:
    decoder = FrameDecoder(lines=True, max_body_bytes=limit)
    chunks = (data[i : i + n_chunk] for i in range(0, len(data), n_chunk))
    return [*decoded(decoder, *chunks), *decoder.finish()]


@pytest.mark.parametrize("n_chunk", [1, 2, 7, 1000])
def test_lines(n_chunk):
    assert decoded_with_lines(LINES, n_chunk) == [b'{"a":1}', b"[2]", b'"last"']


@pytest.mark.parametrize("n_chunk", [1, 2, 7, 1000])
def test_first_bytes_tell_frames_from_lines(n_chunk):
    frames = b"content-type: x; charset=utf-8\r\nCONTENT-LENGTH:3 \r\n\r\n[1]" + frame(b"{}\n")
    assert decoded_with_lines(frames, n_chunk) == [b"[1]", b"{}\n"]


@pytest.mark.parametrize("rubbish", [b"hello", b"Cont", b"C", b"\xff\xfe", b"contents"])
def test_rubbish_first_is_a_line(rubbish):
    assert decoded_with_lines(rubbish + b"\n{}\n", 1) == [rubbish, b"{}"]


@pytest.mark.parametrize("n_chunk", [1, 7, 1000])
@pytest.mark.parametrize("rubbish", [b"hello", b'{"a":1}\nhello'])
def test_rubbish_before_the_first_header(rubbish, n_chunk):
    found = decoded_with_lines(rubbish + frame(b"[1]") + frame(b"{}"), n_chunk)
    assert isinstance(found[-3], FramingProblem)
    assert found[-2:] == [b"[1]", b"{}"]


@pytest.mark.parametrize("n_chunk", [1, 3, 1000])
def test_too_long_lines_are_skipped(n_chunk):
    found = decoded_with_lines(b"{}\n" + b"x" * 50 + b"\n[1]\n", n_chunk, limit=20)
    assert [type(item) for item in found] == [bytes, FramingProblem, bytes]


@pytest.mark.parametrize("cut", [b"Content-Length: 9\r\n\r\n{", b"Content-Length: 9\r\n\r\n"])
def test_a_stream_that_ends_within_a_message(cut):
    (problem,) = decoded_with_lines(cut)
    assert isinstance(problem, FramingProblem)


def test_nothing_is_nothing():
    assert decoded_with_lines(b"") == decoded_with_lines(b" \r\n\n") == []


def test_body_behind_a_broken_header_does_not_hide_the_next_header():
    *problems, message = decoded(FrameDecoder(), b"Content-Length: abc\r\n\r\n{}" + frame(b"[7]"))
    assert [type(problem) for problem in problems] == [FramingProblem] * 2
    assert message == b"[7]"


@given(data=st.binary(max_size=200), n_chunk=st.integers(1, 30), lines=st.booleans())
def test_no_bytes_break_it(data, n_chunk, lines):
    decoder = FrameDecoder(lines=lines)
    for start in range(0, len(data), n_chunk):
        found = decoder.feed(b"Content-" + data[start : start + n_chunk])
        assert all(isinstance(item, bytes | FramingProblem) for item in found)
