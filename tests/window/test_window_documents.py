"""What a window's completer gets to see of its documents: masked once per change, in order."""

import asyncio
import dataclasses
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from masked_by_rules import update_checked
from scripted_completer import ScriptedCompleter
from secret_forms import planted_secrets
from typed_requests import request_between
from waiting import until

from speclsp.errors import EngineUnavailableError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest, CompletionResult
from speclsp.seam.documents import Document, TextEdit
from speclsp.secrets.masked_text import PLACEHOLDER, MaskedText, Masking
from speclsp.settings import Settings
from speclsp.window.window import Window

URI = "file:///p/a.py"
SECRET = 'password = "hunter22"\n'
MASKED = f'password = "{PLACEHOLDER}"\n'
LARGE = "x = 1\n" * 20_000 + SECRET
KEY = "-----BEGIN PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD9\nabc\n-----END PRIVATE KEY-----\n"


def document(text: str, version: int = 1, path: str = "a.py", **fields: str) -> Document:
    known = {"uri": URI, "language_id": "python", **fields}
    return Document(path=path, version=version, text=text, **known)


def make(**fields: Any) -> tuple[Window, ScriptedCompleter]:
    completer = ScriptedCompleter(Settings())
    return Window(completer, dataclasses.replace(Settings(), **fields)), completer


def asked(window: Window, offset: int, **fields: Any) -> CompletionResult:
    request = CompletionRequest(uri=URI, **{"version": 1, "offset": offset, **fields})
    return window.ask(request, CancellationToken()).result(60)


def wait_masked(window: Window) -> None:
    def is_masked() -> bool:
        with window._documents._lock:  # held until a masked text is delivered
            return not window._documents._late

    until(is_masked)


# --- masked once per change -----------------------------------------------------------------------

LINES = [*(p.lines for p in planted_secrets(1)), *KEY.splitlines(keepends=True), "", "x = (", "\n"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_masking_by_changed_lines_is_masking_the_whole_text(data):
    window, completer = make()
    text = "".join(data.draw(st.lists(st.sampled_from(LINES), max_size=6)))
    window.open_document(document(text))
    known = MaskedText("a.py")
    update_checked(known, text, "a.py")
    for version in range(2, data.draw(st.integers(2, 7))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + data.draw(st.sampled_from([*LINES, "a", "\n", '"'])) + text[end:]
        window.change_document(URI, version, text)
        # What the completer makes of the edits that it was given.
        (_, newest) = window._documents._masked[URI][-1]
        assert completer.documents[URI].text == newest.text
        update_checked(known, text, "a.py")
        assert newest.text == known.text
        offset = data.draw(st.integers(0, len(text)))
        placed = window.masked_request(CompletionRequest(uri=URI, version=version, offset=offset))
        if isinstance(placed, CompletionRequest):
            line_before = text[:offset].rpartition("\n")[2]
            line_after = text[offset:].partition("\n")[0]
            whole = completer.documents[URI].text
            assert whole[: placed.offset].endswith(line_before)
            assert whole[placed.offset :].startswith(line_after)
        else:
            assert placed == "private"


def test_a_keystroke_is_masked_once(monkeypatch):
    window, _ = make(suggestion_memory=False)
    window.open_document(document("x = \n"))
    updates: list[str] = []
    update = MaskedText.update

    def counted(text: MaskedText, raw: str, *more: Any, **most: int) -> Masking | None:
        updates.append(raw)
        return update(text, raw, *more, **most)

    monkeypatch.setattr(MaskedText, "update", counted)
    window.change_document(URI, 2, "x = f\n")
    assert asked(window, 5, version=2).generated.text == "completed"
    assert updates == ["x = f\n"]


@pytest.mark.parametrize("text", ["y = 2\n", SECRET, "", f"x = 1\n{SECRET}y = 2\n"])
def test_a_document_that_is_opened_again_has_its_new_text(text):
    window, completer = make()
    window.open_document(document("x = 1\n"))
    window.open_document(document(text))
    assert completer.documents[URI].text == text.replace("hunter22", PLACEHOLDER)
    window.change_document(URI, 2, text + "z = 3\n")
    assert completer.documents[URI].text == text.replace("hunter22", PLACEHOLDER) + "z = 3\n"


def test_an_edit_of_a_request_is_masked_and_leaves_the_document_as_it_is():
    window, completer = make()
    text = f"{SECRET}x = os.pa\n{SECRET}"
    window.open_document(document(text))
    at = text.index("os.pa")
    edit = TextEdit(at + 3, at + 5, f"path\n{SECRET}y = ")
    asked(window, edit.start + len(edit.text), edit=edit)
    request = completer.asked[0].request
    assert request.prefix == f"{MASKED}x = os.path\n{MASKED}y = "
    assert request.suffix == f"\n{MASKED}"
    assert completer.documents[URI].text == text.replace(SECRET, MASKED)
    refused = TextEdit(at + 3, at + 5, 'path; password = "hunter33"; ')
    assert asked(window, refused.start + len(refused.text), edit=refused).source == "filter"


# --- what is private ------------------------------------------------------------------------------


def test_nothing_is_asked_on_the_line_of_a_secret():
    window, completer = make()
    window.open_document(document(f"x = 1\n{SECRET}\n"))
    assert asked(window, 20).source == "filter"
    assert asked(window, len(f"x = 1\n{SECRET}")).generated.text == "completed"
    assert len(completer.asked) == 1


@pytest.mark.parametrize(
    ("path", "file"), [(".env", ""), ("id_rsa", ""), ("config", "/home/ada/.kube/config")]
)
def test_a_private_file_has_no_text_and_no_completions(path, file):
    window, completer = make()
    window.open_document(document("x = 1\n", path=path, file=file))
    window.change_document(URI, 2, "y = 1\n")
    assert completer.documents[URI].text == ""
    assert asked(window, 2, version=2).source == "filter"
    assert completer.asked == []


def test_a_text_of_very_many_secrets_is_private_as_a_whole():
    window, completer = make()
    dump = "-----BEGIN PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD9\n" * 1_200
    window.open_document(document(dump))
    assert completer.documents[URI].text == ""
    assert asked(window, len(dump)).source == "filter"


def test_switched_off_everything_passes():
    window, completer = make(mask_secrets=False)
    window.open_document(document(SECRET))
    window.change_document(URI, 2, SECRET + "x")
    assert completer.documents[URI].text == SECRET + "x"
    assert asked(window, 12, version=2).generated.text == "completed"


# --- large texts ----------------------------------------------------------------------------------


class Gate:
    """Holds the masking thread until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.entered = threading.Event()
        update = MaskedText.update

        def gated(text: MaskedText, raw: str, *more: Any, **most: int) -> Masking | None:
            if threading.current_thread().name.startswith("speclsp-mask"):
                self.entered.set()
                assert self.opened.wait(60)
            return update(text, raw, *more, **most)

        monkeypatch.setattr(MaskedText, "update", gated)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


@pytest.fixture
def late() -> Iterator[tuple[Window, ScriptedCompleter]]:
    completer = ScriptedCompleter(Settings())
    window = Window(completer, Settings(), masks_late=True)
    yield window, completer
    window.close()


def test_a_large_text_comes_late_and_masked(late, gate):
    window, completer = late
    window.open_document(document(LARGE))
    assert asked(window, len(LARGE)).generated.finish_reason == "cancelled"
    assert completer.documents == {}
    window.open_document(document("y = 1\n", uri="file:///p/b.py"))
    assert list(completer.documents) == ["file:///p/b.py"]
    gate.opened.set()
    wait_masked(window)
    assert completer.documents[URI].text == LARGE.replace(SECRET, MASKED)
    assert asked(window, len(LARGE)).generated.text == "completed"


def test_a_document_that_is_being_masked_is_known(late, gate):
    window, completer = late
    window.open_document(document(LARGE))
    assert gate.entered.wait(60)
    known = window.document(URI)  # by which a moved document is opened again under its new path
    assert (known.path, completer.documents) == (document(LARGE).path, {})
    gate.opened.set()


async def test_a_request_waits_for_its_version_to_be_masked(late, gate):
    window, _completer = late
    window.open_document(document(LARGE))
    request = CompletionRequest(uri=URI, version=1, offset=len(LARGE), trigger="invoked")
    waiting = asyncio.ensure_future(window.complete(request, CancellationToken()))
    assert await asyncio.to_thread(gate.entered.wait, 60)
    assert not waiting.done()
    gate.opened.set()
    assert (await waiting).generated.text == "completed"
    assert window.statistics().n_requests == 1


def test_the_newest_version_is_the_one_that_comes(late, gate):
    window, completer = late
    window.open_document(document(LARGE))
    assert gate.entered.wait(60)
    window.change_document(URI, 2, LARGE + "z")
    window.change_document(URI, 3, LARGE + SECRET)
    gate.opened.set()
    wait_masked(window)
    assert completer.documents[URI].text == LARGE.replace(SECRET, MASKED) + MASKED
    assert [call for call in completer.calls if call[0] != "close"] == [("open_document", URI)]
    window.change_document(URI, 4, "y = 2\n" * 20_000)
    window.change_document(URI, 5, "y = 23\n" * 20_000)
    wait_masked(window)
    assert completer.documents[URI].version == 5


def test_a_document_that_was_closed_meanwhile_does_not_come(late, gate):
    window, completer = late
    window.open_document(document(LARGE))
    assert gate.entered.wait(60)
    window.close_document(URI)
    window.open_document(document("x = 1\n", 2))
    gate.opened.set()
    window.open_document(document(LARGE, uri="file:///p/b.py"))
    wait_masked(window)
    assert completer.documents[URI].text == "x = 1\n"
    assert set(completer.documents) == {URI, "file:///p/b.py"}


def test_a_text_that_cannot_be_masked_is_left_out(late, monkeypatch, caplog):
    window, completer = late
    update = MaskedText.update

    def failing(text: MaskedText, raw: str, *more: Any, **most: int) -> Masking | None:
        if raw == LARGE and "n_most" not in most:
            raise MemoryError
        return update(text, raw, *more, **most)

    monkeypatch.setattr(MaskedText, "update", failing)
    window.open_document(document(LARGE))
    window.open_document(document("y" + LARGE, uri="file:///p/b.py"))
    until(lambda: "file:///p/b.py" in completer.documents)
    assert list(completer.documents) == ["file:///p/b.py"]
    assert "could not be masked" in caplog.text


def test_an_accepted_text_is_not_learned_before_its_line_is_masked(late, gate):
    window, completer = late
    line, other = 'password = "', "file:///p/b.py"
    window.open_document(document(line))
    window.open_document(document("x = ", uri=other))
    result = asked(window, len(line))
    window.accepted(result.generated.completion_id)
    window.change_document(URI, 2, LARGE + f'{line}{result.generated.text}"\n')
    assert gate.entered.wait(60)
    elsewhere = CompletionRequest(uri=other, version=1, offset=4)
    window.ask(elsewhere, CancellationToken()).result(60)
    gate.opened.set()
    wait_masked(window)
    window.ask(elsewhere, CancellationToken()).result(60)
    assert completer.learned == []


def test_a_request_between_cells_reads_them():
    window, completer = make()
    for name in ("above", "below"):
        window.open_document(document(f"{name} = 1\n{SECRET}", uri=name))
    window.open_document(document("x = "))
    window.change_document("above", 2, "changed since")
    asked(window, 4, above=(("above", 1),), below=(("below", 1),))
    request = completer.asked[0].request
    expected = request_between(f"above = 1\n{MASKED}\nx = ", f"\nbelow = 1\n{MASKED}")
    assert (request.prefix, request.suffix) == (expected.prefix, expected.suffix)


async def test_a_request_before_the_engine_is_ready_counts_as_empty():
    window, completer = make(debounce_ms=0)
    completer.engine_state = "loading"
    window.open_document(document("x = "))
    wait_masked(window)
    with pytest.raises(EngineUnavailableError):
        await window.complete(CompletionRequest(uri=URI, version=1, offset=4), CancellationToken())
    stats = window.statistics()
    assert (stats.n_requests, stats.n_empty, stats.n_failed) == (1, 1, 0)


async def test_an_error_after_the_request_was_cancelled_is_not_logged(caplog):
    """An engine in another process refuses a request later than the editor cancels it."""
    window, completer = make(debounce_ms=0)
    completer.script = lambda asked: None
    window.open_document(document("x = "))
    wait_masked(window)
    request = CompletionRequest(uri=URI, version=1, offset=4)
    task = asyncio.create_task(window.complete(request, CancellationToken()))
    while not completer.asked:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    completer.asked[0].future.set_exception(EngineUnavailableError("the model is loading."))
    await asyncio.sleep(0.01)
    gc.collect()
    assert caplog.text == ""
