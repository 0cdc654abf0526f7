from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest_asyncio
from lsp_wire import LspWire


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Callable[..., LspWire]]:
    """Make raw clients, each with a server and a scripted completer of its own."""
    wires: list[LspWire] = []

    def make(*arguments: Any, **named: Any) -> LspWire:
        wires.append(LspWire(*arguments, **named))
        return wires[-1]

    yield make
    for wire in wires:
        await wire.close()


@pytest_asyncio.fixture
async def wire(connect: Callable[..., LspWire]) -> LspWire:
    """Return a client that is initialized, with one folder."""
    made = connect()
    await made.initialize()
    return made
