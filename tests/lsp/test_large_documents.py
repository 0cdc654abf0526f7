"""Documents that are too large: no suggestions, and one word about that."""

from typing import Any

import pytest
import pytest_asyncio
from lsp_wire import URI, LspWire, span

from speclsp.lsp import session
from speclsp.lsp.text_buffer import TextBuffer

OTHER = "file:///home/user/project/other.py"
LIMIT = 20


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_DOCUMENT_CHARS", LIMIT)


FITS = "x = 1\n" * 3
TOO_LARGE = FITS + "y = 2\n"


@pytest_asyncio.fixture
async def limited(start: Any) -> LspWire:
    return await start()


def told_of_texts(wire: LspWire) -> list[str]:
    return [call[0] for call in wire.completer.calls if call[0].endswith("_document")]


def insert(text: str) -> dict[str, object]:
    return {"range": span(0, 0, 0), "text": text}


async def test_nothing_is_suggested_and_the_user_is_told_once(limited):
    limited.open(TOO_LARGE)
    for version in range(2, 12):
        limited.change(version, insert("z"))
        assert await limited.ghost(0, 1) == []
    (message,) = limited.shown
    assert message == (
        f"speclsp suggests nothing in mod.py: it has {len(TOO_LARGE)} characters, "
        f"and more than {LIMIT} are too many."
    )
    assert limited.logged.count("suggests nothing") == 1
    assert (told_of_texts(limited), limited.completer.asked) == ([], [])


async def test_of_further_ones_the_log_tells(limited):
    limited.open(TOO_LARGE)
    limited.open(TOO_LARGE, uri=OTHER)
    assert await limited.ghost(0, 0, uri=OTHER) == []
    assert len(limited.shown) == 1
    assert "nothing in mod.py" in limited.logged
    assert "nothing in other.py" in limited.logged


async def test_no_text_of_theirs_is_put_together(limited, monkeypatch):
    n_texts: list[str] = []
    put_together = TextBuffer.__dict__["text"].fget

    def counted(buffer: TextBuffer) -> str:
        n_texts.append(buffer.uri)
        return str(put_together(buffer))

    monkeypatch.setattr(TextBuffer, "text", property(counted))
    limited.open(TOO_LARGE)
    limited.change(2, insert("z"))
    assert await limited.ghost(0, 1) == []
    assert n_texts == []
    limited.change(3, {"text": FITS})
    await limited.until(lambda: bool(n_texts))


async def test_a_document_that_shrinks_gets_suggestions_and_loses_them_again(limited):
    limited.open(TOO_LARGE)
    limited.change(2, {"range": span(0, 0, 0, 1), "text": ""})
    assert (await limited.ghost(0, 1))[0]["insertText"] == "completed"
    limited.change(3, insert("z"))
    await limited.ghost(0, 1)
    limited.change(4, {"text": TOO_LARGE})
    assert await limited.ghost(0, 1) == []
    limited.change(5, insert("z"))
    assert told_of_texts(limited) == ["open_document", "change_document", "close_document"]
    assert URI not in limited.completer.documents
    assert len(limited.shown) == 1


async def test_one_that_was_open_before_the_completer_is_left_out_too(connect):
    wire = connect()
    await wire.initialize_only()
    wire.open(TOO_LARGE)
    wire.open(FITS, uri=OTHER)
    await wire.until(lambda: wire.server.session.window is not None)
    await wire.until(lambda: OTHER in wire.completer.documents)
    assert URI not in wire.completer.documents
    assert len(wire.shown) == 1


async def test_a_document_that_was_opened_anew_is_told_of_anew(limited):
    for _ in range(2):
        limited.open(TOO_LARGE)
        limited.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    await limited.until(lambda: limited.logged.count("nothing in mod.py") == 2)
    assert len(limited.shown) == 1
