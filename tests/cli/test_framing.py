import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.cli.framing import BrokenFrame, Message, MessageSplitter, frame


def split(data: bytes, n_chunk: int = 10**9, limit: int = 10**6) -> list[object]:
    splitter = MessageSplitter(max_message_bytes=limit)
    found: list[object] = []
    for start in range(0, len(data), n_chunk):
        found += splitter.feed(data[start : start + n_chunk])
    return [*found, *splitter.finish()]


LINES = b'\n  {"a":1}\r\n\n[2]\n"last"'
HEADERS = (
    b"Content-Length: 7\r\n\r\n{}\r\n\r\n "
    b"content-type: x; charset=utf-8\r\nCONTENT-LENGTH:3 \r\n\r\n[1]"
    b"\r\nContent-Length: 0\n\n"
)


@pytest.mark.parametrize("n_chunk", [1, 2, 7, 1000])
def test_lines(n_chunk: int) -> None:
    assert split(LINES, n_chunk) == [Message(b'{"a":1}'), Message(b"[2]"), Message(b'"last"')]


@pytest.mark.parametrize("n_chunk", [1, 2, 7, 1000])
def test_headers(n_chunk: int) -> None:
    assert split(HEADERS, n_chunk) == [
        Message(b"{}\r\n\r\n "),
        Message(b"[1]"),
        Message(b""),
    ]


@pytest.mark.parametrize("rubbish", [b"hello", b"Cont", b"C", b"\xff\xfe", b"contents"])
def test_rubbish_first_is_a_line(rubbish: bytes) -> None:
    assert split(rubbish + b"\n{}\n", 1) == [Message(rubbish), Message(b"{}")]


@pytest.mark.parametrize("n_chunk", [1, 7, 1000])
@pytest.mark.parametrize(
    ("rubbish", "before"),
    [
        (b"hello", [BrokenFrame("bytes before a Content-Length header.")]),
        (b"hello\n", [Message(b"hello")]),
        (
            b'{"a":1}\nhello',
            [Message(b'{"a":1}'), BrokenFrame("bytes before a Content-Length header.")],
        ),
    ],
)
def test_rubbish_before_the_first_header(
    rubbish: bytes, before: list[object], n_chunk: int
) -> None:
    data = rubbish + frame(b"[1]", "headers") + frame(b"{}", "headers")
    assert split(data, n_chunk) == [*before, Message(b"[1]"), Message(b"{}")]


def test_long_rubbish_is_told_once() -> None:
    broken, *rest = split(b"x" * 99 + frame(b"[1]", "headers"), 10, limit=50)
    assert isinstance(broken, BrokenFrame)
    assert rest == [Message(b"[1]")]


@pytest.mark.parametrize(
    "broken",
    [
        b"Content-Length: abc\r\n\r\n{}",
        b"Content-Type: x\r\n\r\n{}",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length 5\r\n\r\n{}\r\n\r\n",
        b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
    ],
)
@pytest.mark.parametrize("n_chunk", [1, 1000])
def test_a_broken_header_is_told_once_and_the_next_is_found(broken: bytes, n_chunk: int) -> None:
    broken_frame, message = split(broken + frame(b"[7]", "headers"), n_chunk)
    assert isinstance(broken_frame, BrokenFrame)
    assert "Content-Length" in broken_frame.reason
    assert message == Message(b"[7]")


def test_an_endless_header_is_told_once() -> None:
    broken, message = split(b"Content-X: " + b"y" * 30000 + frame(b"[7]", "headers"), 1000)
    assert isinstance(broken, BrokenFrame)
    assert message == Message(b"[7]")


@pytest.mark.parametrize("n_chunk", [1, 3, 1000])
def test_too_long_messages_are_skipped(n_chunk: int) -> None:
    lines = split(b"{}\n" + b"x" * 50 + b"\n[1]\n", n_chunk, limit=20)
    assert [type(item) for item in lines] == [Message, BrokenFrame, Message]
    headers = b"".join(frame(body, "headers") for body in (b"{}", b"x" * 50, b"[1]"))
    assert [type(item) for item in split(headers, n_chunk, limit=20)] == [
        Message,
        BrokenFrame,
        Message,
    ]


@pytest.mark.parametrize("cut", [b"Content-Length: 9\r\n\r\n{", b"Content-Length: 9\r\n\r\n"])
def test_a_stream_that_ends_within_a_message(cut: bytes) -> None:
    (broken,) = split(cut)
    assert isinstance(broken, BrokenFrame)


def test_nothing_is_nothing() -> None:
    assert split(b"") == split(b" \r\n\n") == []


@given(bodies=st.lists(st.binary(min_size=1, max_size=40), max_size=6), n_chunk=st.integers(1, 30))
def test_headers_carry_any_bytes(bodies: list[bytes], n_chunk: int) -> None:
    data = b"".join(frame(body, "headers") for body in bodies)
    assert split(data, n_chunk) == [Message(body) for body in bodies]


@given(data=st.binary(max_size=200), n_chunk=st.integers(1, 30))
def test_no_bytes_break_it(data: bytes, n_chunk: int) -> None:
    found = split(b"Content-" + data, n_chunk)
    assert all(isinstance(item, Message | BrokenFrame) for item in found)
