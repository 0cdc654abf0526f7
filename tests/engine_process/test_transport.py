"""The proofs of a token between a window and an engine at a port."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from speclsp.engine_process.transport import (
    NotAnEngineError,
    accepted,
    admit_window,
    opened,
    prove_to_engine,
)

WAIT_S = 60


async def test_the_token_never_crosses() -> None:
    token = b"5" * 64
    ours, theirs = socket.socketpair()
    window, engine = await opened(ours), await accepted(theirs, None)
    seen: list[bytes] = []
    for _, writer in (window, engine):
        noted(writer, seen)
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(admit_window(engine, token), prove_to_engine(window, token))
    crossed = b"".join(seen)
    assert crossed.count(b"\n") == 4
    assert token not in crossed
    for _, writer in (window, engine):
        writer.close()


def noted(writer: asyncio.StreamWriter, seen: list[bytes]) -> None:
    """Note what a stream sends."""
    write = writer.write
    writer.write = lambda data: (seen.append(bytes(data)), write(data))[1]  # type: ignore[method-assign]


def echo_nonce(client: socket.socket) -> None:
    """Play the engine as far as one can without the token: send the window's words back."""
    client.sendall(b"a" * 64 + b"\n")
    client.sendall(client.recv(4096))
    client.recv(4096)


async def test_an_engine_that_does_not_know_the_token_is_none() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        thread = threading.Thread(target=echo_nonce, args=(theirs,))
        thread.start()
        window = await opened(ours)
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(NotAnEngineError):
                await prove_to_engine(window, b"5" * 64)
        window[1].close()
        await window[1].wait_closed()
        thread.join()
