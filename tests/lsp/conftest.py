from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
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


@pytest.fixture
def start(connect: Callable[..., LspWire]) -> Callable[..., Awaitable[LspWire]]:
    """Make raw clients that are initialized; ``configuration`` is what they answer to a pull."""

    async def make(
        capabilities: Any = None,
        *,
        base_options: Any = None,
        configuration: Any = None,
        **named: Any,
    ) -> LspWire:
        made = connect(base_options=base_options)
        made.answers["workspace/configuration"] = configuration
        await made.initialize(capabilities, **named)
        return made

    return make


@pytest_asyncio.fixture
async def wire(start: Callable[..., Awaitable[LspWire]]) -> LspWire:
    """Return a client that is initialized, with one folder."""
    return await start()
