import itertools
from typing import Any
from unittest.mock import Mock

import pytest
from lsp_wire import INLINE, URI, at, span
from scripted_completer import Asked

from speclsp.seam.completion import GeneratedText
from speclsp.secrets.masked_text import MaskedText, Masking
from speclsp.window.window import Window

# The cursor is at ¦.  What the marker stands in is what the client has open.
TEXTS = (
    "a = 1\nb = ¦2\n",
    "a = 1\r\nb = ¦2\r\nc\r\n",
    "a = 1\rb = ¦2\rc",
    "é = 1\nüü = ¦ñ\n",
    "# 日本語\n名 = ¦値\r\n",
    "s = '😋'\nt = '😋𝒳¦😀'\r\nu\n",
    "a\n\x0cb\x0b = ¦1\n\x85\u2028c\n",
    "¦",
    "abc¦",
    "abc\r\n¦",
)


def n_units(text: str, encoding: str) -> int:
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding]
    return len(text.encode(codec)) // {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]


def lines_of(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_position_means_the_same_place_in_every_encoding(encoding, connect):
    wire = connect()
    result = await wire.initialize(encoding=encoding)
    assert result["capabilities"]["positionEncoding"] == encoding
    wire.completer.script = lambda asked: asked.answer("😋x", n_replaced=1)
    for text in TEXTS:
        prefix, suffix = text.split("¦")
        wire.open(prefix + suffix)
        line = len(lines_of(prefix)) - 1
        character = n_units(lines_of(prefix)[-1], encoding)
        (item,) = await wire.ghost(line, character)
        request = wire.completer.asked[-1].request
        assert request.prefix == "\n".join(lines_of(prefix))
        assert request.suffix == "\n".join(lines_of(suffix))
        replaced = n_units(lines_of(suffix)[0][:1], encoding)
        assert item["range"] == span(line, character, character + replaced)
        assert item["insertText"] == "😋x"


async def test_changes_that_arrive_together_are_masked_once(start, monkeypatch):
    """Each searches its line, so that 10,000 in one line took 80 s."""
    wire = await start()
    wire.open("x = 1\n\n")
    await wire.ghost(0, 0)
    masked: list[int] = []
    update = MaskedText.update

    def counted(text: MaskedText, raw: str, *more: Any, **most: int) -> Masking | None:
        masked.append(len(raw))
        return update(text, raw, *more, **most)

    monkeypatch.setattr(MaskedText, "update", counted)
    for version in range(2, 2_002):
        wire.change(version, {"range": span(1, 0, 0), "text": "(a, "[version % 4]})
        if version in (1_000, 1_500):  # each is answered in its own version
            await wire.ghost(1, 0)
    await wire.ghost(1, 0)
    assert [len(one.request.text) for one in wire.completer.asked[1:]] == [1_006, 1_506, 2_007]
    versions = [call[2] for call in wire.completer.calls if call[0] == "change_document"]
    assert versions == [1_000, 1_500, 2_001]
    assert len(masked) == 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_incremental_edits_in_every_encoding(encoding, start):
    wire = await start(encoding=encoding)
    wire.open("𝒳é = 1\r\nb\r\n")
    # Insert after the é, then delete the astral character, then join the lines.
    after = n_units("𝒳é", encoding)
    wire.change(2, {"range": span(0, after, after), "text": "😀\n"})
    wire.change(
        3,
        {"range": span(0, 0, n_units("𝒳", encoding)), "text": ""},
        {"range": span(1, n_units(" = 1", encoding), 0, 2), "text": ""},
    )
    await wire.ghost(0, 0)
    document = wire.completer.documents[URI]
    assert document.text == "é😀\n = 1b\n"
    assert document.version == 3


async def test_first_known_encoding_of_the_client_is_chosen_or_utf_16(connect, wire):
    able = {"general": {"positionEncodings": ["utf-7", "utf-32", "utf-8"]}}
    result = await connect().initialize(able)
    assert result["capabilities"]["positionEncoding"] == "utf-32"
    assert wire.server.session.encoding == "utf-16"


async def test_item_is_complete(wire):
    wire.open("def f(a):\n    re\n")
    wire.completer.script = lambda asked: asked.answer("turn a\r\n")
    assert await wire.ghost(1, 6) == [
        {
            "insertText": "turn a\n",
            "range": span(1, 6, 6),
            "command": {
                "title": "Accepted",
                "command": "speclsp.accepted",
                "arguments": ["completion-1"],
            },
        }
    ]
    request = wire.completer.asked[0].request
    assert (request.path, request.repo_name) == ("pkg/mod.py", "project")
    assert (request.uri, request.language_id) == (URI, "python")


@pytest.mark.parametrize("position", [(0, 99), (99, 0), (99, 99), (2**31 - 1, 2**31 - 1)])
async def test_position_beyond_the_text_is_moved_into_it(position, wire):
    wire.open("abc")
    (item,) = await wire.ghost(*position)
    assert item["range"] == span(0, 3, 3)


async def test_empty_list_of_an_unknown_document_and_while_the_engine_loads(wire):
    assert await wire.ghost(0, 0, uri="file:///nowhere.py") == []
    assert wire.completer.asked == []
    wire.open("x")
    wire.completer.engine_state = "loading"
    assert await wire.ghost(0, 1) == []


async def test_empty_list_before_the_completer_is_there(connect):
    wire = connect()
    wire.unanswered.add("workspace/configuration")
    await wire.initialize_only({"workspace": {"configuration": True}})
    wire.open("x")
    assert await wire.ghost(0, 1) == []
    assert wire.completers == []


async def test_result_without_use_is_an_empty_list(wire):
    wire.open("x")
    wire.completer.script = lambda asked: asked.answer("")
    assert await wire.ghost(0, 1) == []
    wire.completer.script = lambda asked: asked.answer("half", finish_reason="cancelled")
    assert await wire.ghost(0, 1) == []


async def test_failing_completer_gives_an_empty_list_and_a_log_line(wire):
    wire.open("x")
    wire.completer.script = lambda asked: asked.future.set_exception(RuntimeError("boom"))
    assert await wire.ghost(0, 1) == []
    await wire.until(lambda: "boom" in wire.logged)
    wire.completer.script = Mock(side_effect=ValueError("bang"))
    assert await wire.ghost(0, 1) == []
    await wire.until(lambda: "bang" in wire.logged)


async def test_range_does_not_leave_the_line(wire):
    wire.open("f(a)\nnext")
    wire.completer.script = lambda asked: asked.answer("xyz", n_replaced=40)
    (item,) = await wire.ghost(0, 2)
    assert item["range"] == span(0, 2, 4)


# --- the popup's selected item --------------------------------------------------------------------


SELECTED = (
    ("os.pa", 3, 2, "path"),
    ("os.PA", 3, 2, "path"),  # the popup's item is spelt otherwise than what was typed
    ("console.", 7, 1, ".log"),
    ("x = 𝒳é", 4, 2, "𝒳éß"),
    ("x = foobar", 4, 6, "fob"),
    ("x", 1, 0, "y"),
    ("for", 0, 3, "for i in x:\r\n    pass"),
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_items_begin_with_the_selected_text_in_its_range(encoding, start):
    wire = await start(encoding=encoding)
    wire.completer.script = lambda asked: asked.answer("(😋)")
    for newline, (line, n_before, n_typed, text) in itertools.product(("\n", "\r\n"), SELECTED):
        wire.open(f"a{newline}{line};{newline}b")
        start = n_units(line[:n_before], encoding)
        end = n_units(line[: n_before + n_typed], encoding)
        selected = {"range": span(1, start, end), "text": text}
        (item,) = await wire.ghost(1, end, selectedCompletionInfo=selected)
        assert item["insertText"] == text + "(😋)"
        assert item["range"] == span(1, start, end)
        request = wire.completer.asked[-1].request
        assert request.prefix == "a\n" + line[:n_before] + text.replace("\r\n", "\n")
        assert request.suffix == line[n_before + n_typed :] + ";\nb"


@pytest.mark.parametrize(("answer", "expected"), [("(x)", ["path(x"]), ("(x, y", []), (")", [])])
async def test_nothing_behind_the_selected_range_is_replaced(answer, expected, wire):
    wire.open("os.pa)\n")
    wire.completer.script = lambda asked: asked.answer(answer, n_replaced=1)
    selected = {"range": span(0, 3, 5), "text": "path"}
    items = await wire.ghost(0, 5, selectedCompletionInfo=selected)
    assert [item["insertText"] for item in items] == expected
    assert [item["range"] for item in items] == [span(0, 3, 5)] * len(expected)


async def test_selected_text_that_is_empty_over_lines_or_no_unicode(wire):
    wire.open("ab")
    selected = {"range": span(0, 2, 2), "text": ""}
    (item,) = await wire.ghost(0, 2, selectedCompletionInfo=selected)
    assert item["range"] == span(0, 2, 2)
    selected = {"range": span(0, 0, 2), "text": "a\ud800"}
    (item,) = await wire.ghost(0, 2, selectedCompletionInfo=selected)
    assert item["insertText"] == "a\ufffdcompleted"
    assert wire.completer.asked[-1].request.prefix == "a\ufffd"
    wire.open("a\nb\n")
    n_asked = len(wire.completer.asked)
    selected = {"range": span(0, 0, 1, 1), "text": "ab"}
    assert await wire.ghost(1, 1, selectedCompletionInfo=selected) == []
    assert len(wire.completer.asked) == n_asked


# --- several items --------------------------------------------------------------------------------


def answered_with_alternatives(asked: Asked) -> None:
    asked.answer(
        "one)",
        n_replaced=1,
        mean_logprob=-0.7,
        alternatives=(
            GeneratedText(completion_id="two", text="two", mean_logprob=-0.2),
            GeneratedText(completion_id="three", text="three\r\n", mean_logprob=-0.9),
        ),
    )


async def test_several_items_where_the_user_asks_the_surest_first(wire):
    wire.open("f(")
    wire.change(2, {"range": span(0, 2, 2), "text": ")"})
    wire.completer.script = answered_with_alternatives
    items = await wire.ghost(0, 2, triggerKind=1)
    assert [(item["insertText"], item["command"]["arguments"]) for item in items] == [
        ("two", ["two"]),
        ("one)", ["completion-1"]),
        ("three\n", ["three"]),
    ]
    assert [item["range"]["end"]["character"] for item in items] == [2, 3, 2]
    await wire.ghost(0, 2)  # while typing
    plain = [asked.request.plain for asked in wire.completer.asked]
    assert [(one.trigger, one.n_candidates) for one in plain] == [("invoked", 3), ("automatic", 1)]


async def test_every_item_may_begin_with_the_selected_text(wire):
    wire.open("os.pa\n")
    wire.completer.script = answered_with_alternatives
    selected = {"range": span(0, 3, 5), "text": "path"}
    items = await wire.ghost(0, 5, triggerKind=1, selectedCompletionInfo=selected)
    # One of them would replace a character that is not there, and so nothing.
    assert [item["insertText"] for item in items] == ["pathtwo", "pathone)", "paththree\n"]
    assert {str(item["range"]) for item in items} == {str(span(0, 3, 5))}


async def test_an_alternative_is_shown_and_accepted_by_its_own_id(wire):
    wire.open("f(")
    wire.completer.script = answered_with_alternatives
    items = await wire.ghost(0, 2, triggerKind=1)
    wire.notify("textDocument/didShowCompletion", {"item": items[2]})
    wire.notify(
        "textDocument/didPartiallyAcceptCompletion", {"item": items[2], "acceptedLength": 3}
    )
    await wire.ask("workspace/executeCommand", items[2]["command"])
    calls = [c for c in wire.completer.calls if c[0] in ("shown", "accepted")]
    assert calls == [
        ("shown", "two"),  # the first one, as long as the client does not say what it shows
        ("shown", "three"),
        ("accepted", "three", 3),
        ("accepted", "three", None),
    ]


# --- the document changes meanwhile ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("", ("turn x", 2)), ("tu", ("rn x", 4)), ("turn x", None), ("tx", None), ("turn xy", None)],
)
async def test_typed_through_text_leaves_the_remainder(typed, expected, wire):
    wire.open("re\nend")
    msg_id = await wire.hold(at(0, 2))
    wire.change(2, {"range": span(0, 2, 2), "text": typed})
    wire.completer.asked[0].answer("turn x")
    items = (await wire.answer(msg_id))["result"]["items"]
    if expected is None:
        assert items == []
    else:
        text, character = expected
        assert [i["insertText"] for i in items] == [text]
        assert items[0]["range"] == span(0, character, character)


async def test_typed_line_end_moves_the_range_to_the_next_line(wire):
    wire.open("if a:\r\n")
    msg_id = await wire.hold(at(0, 5))
    wire.change(2, {"range": span(0, 5, 5), "text": "\r\n  "})
    wire.completer.asked[0].answer("\n    pass")
    (item,) = (await wire.answer(msg_id))["result"]["items"]
    assert item["insertText"] == "  pass"
    assert item["range"] == span(1, 2, 2)


async def test_change_elsewhere_drops_the_suggestion(wire):
    wire.open("a\nb\n")
    msg_id = await wire.hold(at(1, 1))
    wire.change(2, {"range": span(0, 0, 1), "text": "z"})
    wire.completer.asked[0].answer("c")
    assert (await wire.answer(msg_id))["result"] == {"items": []}


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_closing_the_document_cancels(is_replaced, wire):
    wire.open("a")
    msg_id = await wire.hold()
    if is_replaced:  # by one under another spelling of the URI
        wire.open("b", uri=URI.replace("mod.py", "m%6Fd.py"))
    else:
        wire.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    assert (await wire.answer(msg_id))["error"]["code"] == -32800
    assert wire.completer.asked[0].cancel.cancelled
    told = [call[:2] for call in wire.completer.calls if call[0].endswith("_document")]
    assert told[1] == ("close_document", URI)


# --- cancelling -----------------------------------------------------------------------------------


async def test_newer_request_ends_the_older_of_the_same_document(wire):
    other = "file:///home/user/project/other.py"
    wire.open("a")
    wire.open("b", uri=other)
    wire.completer.script = lambda asked: None
    first = wire.request(INLINE, at(0, 1))
    beside = wire.request(INLINE, at(0, 1, uri=other))
    await wire.until(lambda: len(wire.completer.asked) == 2)
    second = wire.request(INLINE, at(0, 0))
    assert (await wire.answer(first))["error"]["code"] == -32800
    await wire.until(lambda: len(wire.completer.asked) == 3)
    assert [a.cancel.cancelled for a in wire.completer.asked] == [True, False, False]
    for asked in wire.completer.asked[1:]:
        asked.answer("text")
    # The cancelled one is answered late, as an engine between two decodes does.
    wire.completer.asked[0].answer("late")
    assert len((await wire.answer(second))["result"]["items"]) == 1
    assert len((await wire.answer(beside))["result"]["items"]) == 1
    await wire.settle()
    assert [len(wire.answers_to(i)) for i in (first, beside, second)] == [1, 1, 1]


async def test_cancel_request(wire):
    wire.open("a")
    msg_id = await wire.hold()
    wire.notify("$/cancelRequest", {"id": msg_id})
    wire.notify("$/cancelRequest", {"id": msg_id})
    assert (await wire.answer(msg_id))["error"]["code"] == -32800
    assert wire.completer.asked[0].cancel.cancelled
    wire.completer.asked[0].answer("late")
    await wire.settle()
    assert len(wire.answers_to(msg_id)) == 1


async def test_cancel_before_the_handler_ran(wire):
    wire.open("a")
    msg_id = wire.request(INLINE, at(0, 1))
    wire.notify("$/cancelRequest", {"id": msg_id})
    assert (await wire.answer(msg_id))["error"]["code"] == -32800
    assert wire.completer.asked == []


async def test_cancel_of_unknown_and_answered_requests_is_harmless(wire):
    wire.open("a")
    for wrong in (4711, "x", None, [], {}):
        wire.notify("$/cancelRequest", {"id": wrong})
    msg_id = wire.request(INLINE, at(0, 1))
    await wire.answer(msg_id)
    wire.notify("$/cancelRequest", {"id": msg_id})
    assert len(await wire.ghost(0, 1)) == 1
    assert len(wire.answers_to(msg_id)) == 1


async def test_documents_and_requests_name_their_file(wire):
    for uri, file in ((URI, "/home/user/project/pkg/mod.py"), ("http://[::1", "")):
        wire.open("x", uri=uri)
        assert len(await wire.ghost(0, 1, uri=uri)) == 1
        assert wire.completer.documents[uri].file == file
        assert wire.completer.asked[-1].request.file == file


# --- without the model, and waiting ---------------------------------------------------------------


@pytest.fixture
def delay(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Milliseconds that requests wait for the next keystroke."""
    delay = [3_600_000.0]
    monkeypatch.setattr(Window, "_debounce_ms", lambda *_: delay[0])
    return delay


async def test_what_is_known_is_answered_without_waiting_or_asking(start, delay):
    wire = await start(base_options={"suggestion_memory": True, "idle_work": "prompts"})
    wire.open("x")
    delay[0] = 0.0
    wire.completer.script = lambda asked: asked.answer("return")
    assert len(await wire.ghost(0, 1)) == 1
    delay[0] = 3_600_000.0
    wire.change(2, {"range": span(0, 1, 1), "text": "re"})
    (item,) = await wire.ghost(0, 3)
    assert item["insertText"] == "turn"
    assert len(wire.completer.asked) == 1
    assert ("shown", item["command"]["arguments"][0]) in wire.completer.calls


async def test_one_that_waits_can_be_cancelled(wire, delay):
    wire.open("a")
    wire.completer.script = lambda _: None
    msg_id = wire.request(INLINE, at(0, 1))
    await wire.settle()
    wire.notify("$/cancelRequest", {"id": msg_id})
    assert (await wire.answer(msg_id))["error"]["code"] == -32800
    (waiting,) = wire.completer.asked
    assert waiting.request.plain.debounce_ms == delay[0]
    assert waiting.cancel.cancelled


async def test_a_newer_keystroke_cancels_one_that_waits(wire, delay):
    wire.open("a")
    wire.completer.script = lambda _: None
    first = wire.request(INLINE, at(0, 1))
    await wire.settle()
    (waiting,) = wire.completer.asked
    assert waiting.request.plain.debounce_ms == delay[0]
    delay[0] = 1.0
    wire.change(2, {"range": span(0, 1, 1), "text": "b"})
    wire.completer.script = lambda asked: asked.answer("c")
    assert len(await wire.ghost(0, 2)) == 1
    assert (await wire.answer(first))["error"]["code"] == -32800
    assert waiting.cancel.cancelled
    assert [asked.request.prefix for asked in wire.completer.asked] == ["a", "ab"]


async def test_a_change_behind_a_request_does_not_move_its_cursor(wire):
    wire.open("a = b\n")
    msg_id = wire.request(INLINE, at(0, 5))
    # In the same read, before the request's handler runs.
    wire.change(2, {"range": span(0, 5, 5), "text": "("}, {"range": span(0, 0, 0), "text": "y\n"})
    wire.change(3, {"range": span(0, 0, 1, 0), "text": ""})
    await wire.until(lambda: wire.completer.asked)
    (asked,) = wire.completer.asked
    assert (asked.request.prefix, asked.request.suffix) == ("a = b", "\n")
    (item,) = (await wire.answer(msg_id))["result"]["items"] or [None]
    assert item is None  # it was not typed as suggested


async def test_what_is_typed_behind_a_request_leaves_the_remainder(wire):
    wire.open("a = b\n")
    wire.completer.script = lambda asked: asked.answer("(c)")
    msg_id = wire.request(INLINE, at(0, 5))
    wire.change(2, {"range": span(0, 5, 5), "text": "("})
    (item,) = (await wire.answer(msg_id))["result"]["items"]
    assert (item["insertText"], item["range"]) == ("c)", span(0, 6, 6))
