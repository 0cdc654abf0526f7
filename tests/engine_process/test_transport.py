"""The proofs of a token between a window and an engine at a port."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from speclsp.engine_process.transport import NotAnEngineError, admit_window, prove_to_engine

WAIT_S = 60


def soon() -> float:
    return time.monotonic() + WAIT_S


def test_the_token_never_crosses() -> None:
    token = b"5" * 64
    ours, theirs = socket.socketpair()
    seen: list[bytes] = []
    with ours, theirs:
        engine = threading.Thread(
            target=admit_window, args=(Recording(theirs, seen), token, soon())
        )
        engine.start()
        prove_to_engine(Recording(ours, seen), token, soon())
        engine.join()
    crossed = b"".join(seen)
    assert crossed.count(b"\n") == 4
    assert token not in crossed


class Recording:
    """A socket that notes what it sends."""

    def __init__(self, connection: socket.socket, seen: list[bytes]) -> None:
        self._connection = connection
        self._seen = seen

    def sendall(self, data: bytes) -> None:
        self._seen.append(data)
        self._connection.sendall(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


def echo_nonce(client: socket.socket) -> None:
    """Play the engine as far as one can without the token: send the window's words back."""
    client.sendall(b"a" * 64 + b"\n")
    client.sendall(client.recv(4096))
    client.recv(4096)


def test_an_engine_that_does_not_know_the_token_is_none() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        thread = threading.Thread(target=echo_nonce, args=(theirs,))
        thread.start()
        with pytest.raises(NotAnEngineError):
            prove_to_engine(ours, b"5" * 64, soon())
        ours.shutdown(socket.SHUT_RDWR)
        thread.join()
