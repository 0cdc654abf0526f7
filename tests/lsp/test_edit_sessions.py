"""Sessions by hand with a real server process: what a client asks for, is shown, and accepts.

A stand-in for Zeta 2 behind an OpenAI-compatible server rewrites the region of its prompt by one
rule, as a model does that has understood the change.
"""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from forked_speclsp import forked_command
from rewriting_model import rewriting

from speclsp.seam.statistics import SessionStats
from tests.support.asking_client import AskingMoments, EditingClient
from tests.support.recording_server import RecordingServer, recording_server
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("private_folders")]

OPTIONS = {"engine": "own", "persist": False, "idle_work": "never", "index_project": False}


@dataclass(frozen=True)
class Session:
    """An edit by the user, and the rule by which the model goes on."""

    text: str
    old: str
    new: str
    """What the user changes, once."""
    pattern: str
    by: str
    is_far: bool = False


SESSIONS = (
    Session(  # rename
        text="def total(prices):\n    result = 0\n    for price in prices:\n"
        "        result += price\n    return result\n",
        old="prices",
        new="amounts",
        pattern=r"\bprices\b",
        by="amounts",
    ),
    Session(  # signature and callers
        text="def price(item):\n    return item.price\n\n\ndef bill(items):\n"
        "    lines = []\n    for item in items:\n        lines.append(price(item))\n"
        "    return lines\n",
        old="(item)",
        new="(item, currency)",
        pattern=r"(?<!def )price\(item\)",
        by="price(item, EUR)",
        is_far=True,
    ),
)


def replacing(pattern: str, by: str) -> Callable[[str], str]:
    """The stand-in: it writes the region anew, with what the rule replaces."""
    return rewriting(lambda region: re.sub(pattern, by, region))


@pytest.fixture
def model() -> Iterator[RecordingServer]:
    with recording_server("zeta-2", "") as server:
        yield server


@pytest_asyncio.fixture
async def edit(
    tmp_path: Path, model: RecordingServer
) -> AsyncIterator[Callable[..., Awaitable[EditingClient]]]:
    """Return what opens a text, and waits until the server asks its engine."""
    folder = tmp_path / "project"
    folder.mkdir()
    server = ServerProcess()
    await server.start(
        [str(forked_command()), "serve"],
        folder,
        options={**OPTIONS, "engine_url": model.address, "engine_kind": "openai"},
    )

    names = (f"{number}.py" for number in itertools.count())

    async def open_text(text: str) -> EditingClient:
        server.open(folder / next(names), text)
        client = EditingClient(server, text)
        async with asyncio.timeout(60):
            while (await statistics(client)).state != "ready":
                await asyncio.sleep(0.05)
        return client

    yield open_text
    await server.shutdown()


async def statistics(client: EditingClient) -> SessionStats:
    answer = await client.server.execute_command("speclsp.showStatistics")
    return msgspec.convert(answer, SessionStats)


@pytest.fixture
def begun(edit: Any, model: RecordingServer) -> Callable[[Session], Awaitable[EditingClient]]:
    """Return what makes a session's first edit, after which the model goes on by its rule."""

    async def begin(session: Session) -> EditingClient:
        model.answer = replacing(session.pattern, session.by)
        client: EditingClient = await edit(session.text)
        start = session.text.index(session.old)
        await client.type(start, start + len(session.old), session.new)
        return client

    return begin


async def test_a_change_is_carried_on(begun, model):
    for n_sessions, session in enumerate(SESSIONS, 1):
        model.prompts.clear()
        client = await begun(session)
        assert client.n_asked == 0, "asked in the middle of typing"
        await client.rest(0.35)
        (shown,) = client.shown
        assert shown["isFar"] == session.is_far
        await client.accept(shown)
        typed = session.text.replace(session.old, session.new, 1)
        assert client.text == re.sub(session.pattern, session.by, typed)
        assert client.n_asked == 2, "asked at once after the accepted edit"
        assert len(client.shown) == 1, "nothing is left to change"
        await client.rest(9)
        assert client.n_asked == 2
        stats = (await statistics(client)).edits
        assert stats.n_asked == 2 * n_sessions
        assert (stats.n_shown, stats.n_accepted) == (n_sessions, n_sessions)
        assert stats.withheld == {"unchanged": n_sessions}
        assert len(set(model.prompts)) == len(model.prompts) == 2
        assert "// User accepted prediction:" in model.prompts[1]


async def test_a_rename_goes_on_far_away(edit, model):
    """Where nothing is left to change around the cursor, the next place is proposed."""
    filler = "".join(f"value_{number} = {number}  # a line between\n" for number in range(60))
    text = f"price = 1\n{filler}print(price)\n{filler}store(price)\n"
    model.answer = replacing(r"\bprice\b", "cost")
    client = await edit(text)
    await client.type(0, len("price"), "cost")
    await client.rest(0.35)
    for n_shown in (1, 2):
        assert len(client.shown) == n_shown
        assert client.shown[-1]["isFar"]
        await client.accept(client.shown[-1])
    assert client.text == text.replace("price", "cost")
    assert len(client.shown) == 2
    stats = (await statistics(client)).edits
    assert (stats.n_asked, stats.n_accepted) == (3, 2)
    assert len(model.prompts) == 6 - 1, "two for each far edit, one where no place is left"


def test_the_moments_to_ask_are_those_of_the_documentation():
    moments = AskingMoments()
    moments.edited(1.0, line=3, inserted="a")
    for name in ("is_completion_open", "has_selection"):
        setattr(moments, name, True)
        assert not moments.due(2.0, 2, 3, 1)
        setattr(moments, name, False)
    moments.moved(2.0, 4)
    moments.moved(2.1, 3)
    assert not moments.due(2.1, 2, 3, 1), "who comes back goes on there"
    moments.moved(2.2, 4)
    assert moments.due(2.2, 2, 4, 0)
    assert not moments.due(9.0, 2, 4, 0), "one state is asked about once"
    for pasted in ("x" * 100, "x\n" * 4):
        moments = AskingMoments()
        moments.edited(1.0, line=3, inserted=pasted)
        moments.edited(2.0, line=3, inserted=pasted)
        moments.moved(2.0, 9)
        assert not moments.due(5.0, 2, 9, 0)
        moments.edited(6.0, line=9, inserted="a")
        assert moments.due(6.4, 3, 9, 1), "the edit after a paste is asked about"
    moments.edited(7.0, line=3, inserted="x" * 150)
    moments.accepted()
    assert moments.due(7.0, 4, 3, 0)
    moments.edited(7.1, line=3, inserted="x" * 150)
    assert moments.due(7.5, 5, 3, 0), "an accepted edit is no paste"
