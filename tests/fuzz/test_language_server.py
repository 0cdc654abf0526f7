"""Random traffic of an editor into a real server with the real engine.

``make fuzz SECONDS=600`` runs it for that long, with seeds that it prints; the tests run a sample.
A seed that fails is run again by ``make fuzz SEED=…``, and becomes a test.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fuzzing_client import FuzzingClient
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

pytestmark = pytest.mark.real

SECONDS = float(os.environ.get("SPECLSP_FUZZ_SECONDS", "12")) / 3
"""For each position encoding."""
SEED = os.environ.get("SPECLSP_FUZZ_SEED", "")
N_STEPS = 60
"""Steps of one example."""
MOST_MIB, MOST_THREADS, MOST_FILES = 900, 60, 120

LANGUAGES = {"python": "py", "typescript": "ts", "go": "go", "markdown": "md", "makefile": "mk"}
PIECES = [
    "def area(width, height):\n    return width * height\n", "class A:\n", "    pass\n", "\n",
    "\r\n", "\r", "x = [1, 2,", ")", "}", '"', "'", '"""', "é", "𝒳", "👩\u200d👩\u200d👧", "\u2028",
    "\x0c", "\t", "   ", "const f = (a) => {\n", "func main() {\n", "# comment\n", "import os\n",
    "for i in range(", 'password = "hunter22"\n', "-----BEGIN RSA PRIVATE KEY-----\n",
    "-----END RSA PRIVATE KEY-----\n", "ghp_abcdefghijklmnop1234567890\n", "A" * 70 + "\n",
    "\ud83d", "return ", "self.", "word", "0",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
METHODS = [
    "textDocument/inlineCompletion", "textDocument/didChange", "textDocument/didOpen", "$/x",
    "workspace/executeCommand", "unknown/method", "textDocument/didShowCompletion",
    "notebookDocument/didChange", "workspace/didChangeWorkspaceFolders",
    "textDocument/copilotInlineEdit", "textDocument/didShowInlineEdit",
]  # fmt: skip
WRONG_PARAMS: list[Any] = [
    None, [], {}, 1, {"textDocument": None}, {"textDocument": {"uri": 3}},
    {"textDocument": {"uri": "\ud800"}, "position": {"line": -1, "character": 2**40}},
    {"command": "speclsp.accepted", "arguments": [1]}, {"event": 7}, {"item": {}},
]  # fmt: skip
BYTES = {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}
NUMBERS = st.integers(0, 10**6)

_client: FuzzingClient | None = None
_n_steps = _n_items = _n_edits = 0


class FirstFailure(BaseException):
    """A failure that Hypothesis does not run again, since the server is another one by then.

    Where it does not occur again, Hypothesis says that the strategies are flaky, and not what it
    was.
    """


def apply_edit(text: str, start: int, end: int, new: str) -> str:
    """Return a text with an edit, lone surrogates replaced as the server does."""
    return text[:start] + well_formed(new) + text[end:]


def well_formed(text: str) -> str:
    """Return a text without lone surrogates."""
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


class Editor(RuleBasedStateMachine):
    """An editor with a few documents; what it knows of them is what the server has to know."""

    def __init__(self) -> None:
        super().__init__()
        assert _client is not None
        self.client = _client
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.former: dict[str, list[str]] = {}
        self.latest: int | None = None
        self.uris: list[str] = []
        self.cells: list[str] = []
        """The cells of the notebook in their order; empty where none is open."""

    @initialize(language=st.sampled_from(sorted(LANGUAGES)), text=TEXTS)
    def open_first(self, language: str, text: str) -> None:
        self.open(language, text)

    @precondition(lambda self: len(self.texts) < 4)
    @rule(language=st.sampled_from(sorted(LANGUAGES)), text=TEXTS)
    def open(self, language: str, text: str) -> None:
        number = len(self.uris)
        uri = (self.client.folder / "project" / f"file{number}.{LANGUAGES[language]}").as_uri()
        self.uris.append(uri)
        self.texts[uri], self.versions[uri], self.former[uri] = well_formed(text), 1, []
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.client.notify("textDocument/didOpen", {"textDocument": document})

    @precondition(lambda self: len(self.texts) > len(self.cells) + 1)
    @rule(number=NUMBERS)
    def close_document(self, number: int) -> None:
        uri = self._uri(number)
        if uri not in self.cells:
            del self.texts[uri]
            self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    @precondition(lambda self: not self.cells)
    @rule(texts=st.lists(TEXTS, min_size=1, max_size=3))
    def open_notebook(self, texts: list[str]) -> None:
        items = [self._new_cell(text) for text in texts]
        self.client.notify(
            "notebookDocument/didOpen",
            {
                "notebookDocument": {
                    "uri": self._notebook_uri,
                    "notebookType": "jupyter-notebook",
                    "version": 1,
                    "cells": [{"kind": 2, "document": item["uri"]} for item in items],
                },
                "cellTextDocuments": items,
            },
        )

    @precondition(lambda self: self.cells)
    @rule(number=NUMBERS, n_deleted=st.integers(0, 1), texts=st.lists(TEXTS, max_size=2))
    def change_cells(self, number: int, n_deleted: int, texts: list[str]) -> None:
        start = number % len(self.cells)
        removed = self.cells[start : start + n_deleted]
        kept = [*self.cells[:start], *self.cells[start + n_deleted :]]
        items = [self._new_cell(text) for text in texts]
        new = [item["uri"] for item in items]
        self.cells = [*kept[:start], *new, *kept[start:]]
        for uri in removed:
            del self.texts[uri]
        array = {"start": start, "deleteCount": n_deleted}
        array["cells"] = [{"kind": 2, "document": uri} for uri in new]
        structure = {
            "array": array,
            "didOpen": items,
            "didClose": [{"uri": uri} for uri in removed],
        }
        self._notify_notebook({"structure": structure})

    @precondition(lambda self: self.cells)
    @rule()
    def close_notebook(self) -> None:
        cells = [{"uri": uri} for uri in self.cells]
        notebook = {"uri": self._notebook_uri}
        params = {"notebookDocument": notebook, "cellTextDocuments": cells}
        self.client.notify("notebookDocument/didClose", params)
        for uri in self.cells:
            del self.texts[uri]
        self.cells = []
        if not self.texts:
            self.open("python", "")

    @rule(number=NUMBERS, places=st.lists(st.tuples(NUMBERS, NUMBERS, TEXTS), max_size=3))
    def edit(self, number: int, places: list[tuple[int, int, str]]) -> None:
        """Edit at several cursors, one change after the other."""
        uri = self._uri(number)
        self.client.send(self._change(uri, places))

    @rule(number=NUMBERS, keys=st.text("abc_ .(=:\n", min_size=1, max_size=8), at=NUMBERS)
    def type(self, number: int, keys: str, at: int) -> None:
        """Type letters, with a request for ghost text after each."""
        uri = self._uri(number)
        text = self.texts[uri]
        cursor = at % (len(text) + 1)
        for key in keys:
            before = self.texts[uri]
            if cursor and before[cursor - 1] == "\r":
                break
            self.client.send(self._change(uri, [(cursor, 0, key)]), self._inline(uri, cursor + 1))
            cursor += 1

    @rule(number=NUMBERS, at=NUMBERS, kind=st.sampled_from([1, 2]))
    def complete(self, number: int, at: int, kind: int) -> None:
        self.client.send(self._inline(self._uri(number), at, kind))

    @rule(number=NUMBERS, at=NUMBERS)
    def complete_in_popup(self, number: int, at: int) -> None:
        uri = self._uri(number)
        params = {"textDocument": {"uri": uri}, "position": self._position(uri, at)}
        self.latest = self.client.request("textDocument/completion", params)

    @rule(number=NUMBERS, at=NUMBERS, edits=TEXTS)
    def request_and_change_in_one_write(self, number: int, at: int, edits: str) -> None:
        uri = self._uri(number)
        request = self._inline(uri, at)
        self.client.send(request, self._change(uri, [(at, 1, edits)]), self._inline(uri, at))

    @precondition(lambda self: self.latest is not None)
    @rule()
    def cancel(self) -> None:
        self.client.notify("$/cancelRequest", {"id": self.latest})

    @rule(number=NUMBERS)
    def undo(self, number: int) -> None:
        uri = self._uri(number)
        if self.former[uri]:
            self._replace(uri, self.former[uri].pop())

    @rule(number=NUMBERS, at=NUMBERS)
    def take_what_is_offered(self, number: int, at: int) -> None:
        """Wait for ghost text, check that it fits, and insert it."""
        uri = self._uri(number)
        version = self.versions[uri]
        message = self._inline(uri, at, 1)
        self.client.send(message)
        answer = self.client.answer(message["id"])
        items = answer.get("result", {}).get("items", []) if "error" not in answer else []
        global _n_items  # noqa: PLW0603 - counted over all examples
        _n_items += len(items)
        for item in items:
            assert item["insertText"], item
            assert not any(ord(c) < 32 and c not in "\t\r\n" for c in item["insertText"]), item
            start, end = item["range"]["start"], item["range"]["end"]
            assert start["line"] == end["line"], item
            assert start["character"] <= end["character"], item
        if items and version == self.versions[uri]:
            item = items[0]
            self.client.notify("textDocument/didShowCompletion", {"item": item})
            command = item["command"]
            self.client.request(
                "workspace/executeCommand",
                {"command": command["command"], "arguments": command["arguments"]},
            )

    @rule(number=NUMBERS, at=NUMBERS)
    def ask_for_a_next_edit(self, number: int, at: int) -> None:
        self.latest = self.client.request("textDocument/copilotInlineEdit", self._at(number, at))

    @rule(number=NUMBERS, at=NUMBERS, is_accepted=st.booleans())
    def take_the_next_edit(self, number: int, at: int, is_accepted: bool) -> None:
        """Wait for it, check that it fits, and accept or decline it."""
        asked = self._at(number, at)
        answer = self.client.answer(self.client.request("textDocument/copilotInlineEdit", asked))
        global _n_edits  # noqa: PLW0603 - counted over all examples
        _n_edits += 1
        edits = answer["result"]["edits"]
        assert len(edits) <= 1, edits
        for edit in edits:
            for one in (edit, *edit["hunks"]):
                start, end = one["range"]["start"], one["range"]["end"]
                assert (start["line"], start["character"]) <= (end["line"], end["character"]), edit
            command = "speclsp.acceptedEdit" if is_accepted else "speclsp.declinedEdit"
            params = {"command": command, "arguments": [edit["id"]]}
            self.client.notify("textDocument/didShowInlineEdit", {"item": edit})
            self.client.request("workspace/executeCommand", params)

    @rule(
        name=st.sampled_from(
            ["n_predict", "multiline", "enabled", "debounce_ms", "mode", "nothing"]
        ),
        value=st.sampled_from([0, 1, 8, -1, True, False, "auto", "never", None, [], {"a": 1}]),
    )
    def change_settings(self, name: str, value: Any) -> None:
        params = {"settings": {"speclsp": {name: value}}}
        self.client.notify("workspace/didChangeConfiguration", params)
        self.client.notify("workspace/didChangeConfiguration", {"settings": {"speclsp": {}}})

    @rule(is_added=st.booleans())
    def change_folders(self, is_added: bool) -> None:
        folder = {"uri": (self.client.folder / "other").as_uri(), "name": "other"}
        event = {"added": [folder] * is_added, "removed": [folder] * (not is_added)}
        self.client.notify("workspace/didChangeWorkspaceFolders", {"event": event})

    @rule(
        method=st.sampled_from(METHODS),
        params=st.sampled_from(WRONG_PARAMS),
        is_request=st.booleans(),
    )
    def send_malformed_params(self, method: str, params: Any, is_request: bool) -> None:
        if is_request:
            self.client.request(method, params)
        else:
            self.client.notify(method, params)

    @rule(body=st.sampled_from([b"{", b"[]", b'"x"', b"\xff\xfe", b"{}", b'{"jsonrpc": "1.0"}']))
    def send_malformed_json(self, body: bytes) -> None:
        self.client.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    @rule()
    def wait(self) -> None:
        self.client.wait_all()
        self.latest = None

    @invariant()
    def the_server_has_the_documents(self) -> None:
        global _n_steps  # noqa: PLW0603 - counted over all examples
        _n_steps += 1
        known = self.client.ask("fuzz/documents", None)
        expected = {uri: [self.versions[uri], text, True] for uri, text in self.texts.items()}
        assert known == expected
        self.client.check()

    def teardown(self) -> None:
        failure = sys.exc_info()[1]
        try:
            self.close_all(failure)
        except Exception as error:
            if SEED:  # to be shrunk
                raise
            raise FirstFailure(f"the last messages: {[*self.client.recent]}") from error

    def close_all(self, failure: BaseException | None) -> None:
        """Close all documents, and check what the server holds then.  Raises a step's failure."""
        if isinstance(failure, Exception):
            raise failure
        if self.cells:
            self.close_notebook()
        for uri in self.texts:
            self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        self.client.wait_all()
        self.client.check()
        n_mib, n_threads, n_files = self.client.resources()
        assert n_mib < MOST_MIB, n_mib
        assert n_threads < MOST_THREADS, n_threads
        assert n_files < MOST_FILES, n_files

    # --- messages -------------------------------------------------------------------------------

    @property
    def _notebook_uri(self) -> str:
        return (self.client.folder / "project" / "book.ipynb").as_uri()

    def _new_cell(self, text: str) -> dict[str, Any]:
        uri = f"vscode-notebook-cell://x/book.ipynb#{len(self.uris)}"
        self.uris.append(uri)
        self.cells.append(uri)
        self.texts[uri], self.versions[uri], self.former[uri] = well_formed(text), 1, []
        return {"uri": uri, "languageId": "python", "version": 1, "text": text}

    def _notify_notebook(self, cells: dict[str, Any]) -> None:
        self.client.send(self._notebook_change(cells))

    def _notebook_change(self, cells: dict[str, Any]) -> dict[str, Any]:
        notebook = {"uri": self._notebook_uri, "version": 2}
        params = {"notebookDocument": notebook, "change": {"cells": cells}}
        return {"method": "notebookDocument/didChange", "params": params}

    def _uri(self, number: int) -> str:
        return sorted(self.texts)[number % len(self.texts)]

    def _position(self, uri: str, at: int) -> dict[str, int]:
        """Return the position of an offset; in a CRLF the end of the line."""
        text = self.texts[uri]
        before = text[: at % (len(text) + 1)]
        if before.endswith("\r") and text[len(before) :].startswith("\n"):
            before = before[:-1]
        lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        n_units = len(lines[-1].encode(self.client.codec)) // BYTES[self.client.codec]
        return {"line": len(lines) - 1, "character": n_units}

    def _at(self, number: int, at: int) -> dict[str, Any]:
        uri = self._uri(number)
        return {"textDocument": {"uri": uri}, "position": self._position(uri, at)}

    def _offset(self, text: str, at: int) -> int:
        offset = at % (len(text) + 1)
        return offset - (text[:offset].endswith("\r") and text[offset:].startswith("\n"))

    def _change(self, uri: str, places: list[tuple[int, int, str]]) -> dict[str, Any]:
        self.former[uri].append(self.texts[uri])
        changes = []
        for at, n_chars, new in places:
            text = self.texts[uri]
            start = self._offset(text, at)
            end = self._offset(text, min(start + n_chars % 30, len(text)))
            span = {"start": self._position(uri, start), "end": self._position(uri, end)}
            changes.append({"range": span, "text": new})
            self.texts[uri] = apply_edit(text, start, end, new)
        return self._changed(uri, changes)

    def _replace(self, uri: str, text: str) -> None:
        self.texts[uri] = text
        self.client.send(self._changed(uri, [{"text": text}]))

    def _changed(self, uri: str, changes: list[dict[str, Any]]) -> dict[str, Any]:
        self.versions[uri] += 1
        identifier = {"uri": uri, "version": self.versions[uri]}
        if uri in self.cells:
            return self._notebook_change(
                {"textContent": [{"document": identifier, "changes": changes}]}
            )
        params = {"textDocument": identifier, "contentChanges": changes}
        return {"method": "textDocument/didChange", "params": params}

    def _inline(self, uri: str, at: int, kind: int = 2) -> dict[str, Any]:
        params = {
            "textDocument": {"uri": uri},
            "position": self._position(uri, at),
            "context": {"triggerKind": kind},
        }
        message = self.client.request_message("textDocument/inlineCompletion", params)
        self.latest = message["id"]
        return message


def make_hostile(project: Path) -> None:
    """Write what a project from somebody else may hold."""
    project.mkdir()
    code = b"def area(width, height):\n    return width * height\n"
    if sys.platform == "linux":  # elsewhere names are Unicode
        Path(os.fsdecode(bytes(project) + b"/caf\xe9.py")).write_bytes(code)
        folder = Path(os.fsdecode(bytes(project) + b"/\xff"))
        folder.mkdir()
        (folder / "\U0001f600\n.py").write_bytes(code)
    (project / "sparse.py").touch()
    os.truncate(project / "sparse.py", 1 << 40)
    (project / "long.py").write_text("passwo" * 3_000)
    os.mkfifo(project / "pipe.py")
    (project / "zero.py").symlink_to("/dev/zero")
    (project / "self").symlink_to(project)
    (project / ".git").write_text("gitdir: a\0b")
    (project / ".gitignore").write_text("*a" * 20 + "b\n" + "**/a" * 9 + "/b\n")
    (project / ("a" * 250)).write_bytes(code)


@pytest.fixture(params=["utf-16", "utf-8", "utf-32"])
def client(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FuzzingClient]:
    # Own engines show what they leak; a shared one shows what the socket does to the traffic.
    engine = "own" if request.param == "utf-16" else "shared"
    options = {"debounce_ms": 0, "n_predict": 12, "engine": engine, "edit_format": "sweep-8"}
    make_hostile(tmp_path / "project")
    client = FuzzingClient(tmp_path, options, request.param)
    yield client
    client.kill()


@pytest.mark.timeout(SECONDS + 300)
def test_random_traffic_leaves_the_server_as_it_should_be(client):
    global _client  # noqa: PLW0603 - a state machine is made without arguments
    _client = client
    deadline, n_runs = time.monotonic() + SECONDS, 0
    while time.monotonic() < deadline or (n_runs < 8 and not (_n_items and _n_edits)):
        n_runs += 1
        number = int(SEED or random.SystemRandom().randrange(2**32))
        print(f"seed {number}, {_n_steps} steps so far", flush=True)  # noqa: T201 - to run it again
        machine = seed(number)(type("SeededEditor", (Editor,), {}))
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=5,
                stateful_step_count=N_STEPS,
                deadline=None,
                database=None,
                # Shrinking takes minutes: what failed is shrunk where its seed is given.
                phases=(Phase.generate, Phase.shrink) if SEED else (Phase.generate,),
                suppress_health_check=list(HealthCheck),
            ),
        )
        if SEED:
            break
    figures = f"{_n_steps} steps, {_n_items} items, {_n_edits} edits asked"
    print(f"{figures}, resources {client.resources()}")  # noqa: T201
    assert _n_items, "nothing was suggested"
    assert _n_edits, "no next edit was asked for"
    assert client.close() == 0
