"""Which requests llama.vim sends, and which it answers itself."""

import pytest

from benchmarks.peers.infill import InfillAnswer, JsonObject
from benchmarks.peers.llama_vim import LlamaVim
from benchmarks.peers.vim_buffer import VimBuffer, vim_buffer


class Server:
    """Says the next of its texts, and keeps what it was asked."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.asked: list[JsonObject] = []

    def __call__(self, request: JsonObject) -> InfillAnswer:
        self.asked.append(request)
        return InfillAnswer(text=self.texts.pop(0) if self.texts else "")


def editor(server: Server) -> LlamaVim:
    return LlamaVim(server, n_predict=128, seed=1)


def at(before: str, after: str = "\n") -> VimBuffer:
    return vim_buffer("file.py", before, after)


def test_the_request_is_the_plugins():
    server = Server("f()")
    editor(server).moved(at("a\n    x = "))
    (request,) = server.asked
    assert request["input_prefix"] == "a\n"
    assert request["prompt"] == "    x = "
    assert request["input_suffix"] == "\n\n"
    assert request["samplers"] == ["top_k", "top_p", "infill"]
    assert (request["top_k"], request["top_p"], request["n_indent"]) == (40, 0.90, 4)
    assert (request["t_max_prompt_ms"], request["t_max_predict_ms"]) == (500, 250)
    assert (request["n_predict"], request["cache_prompt"], request["id_slot"]) == (128, True, 0)


def test_behind_what_is_shown_the_next_is_asked_ahead():
    server = Server("f()", "\ny = 2")
    vim = editor(server)
    assert vim.moved(at("x = ")).source == "model"
    vim.work_in_background()
    assert [request["prompt"] for request in server.asked] == ["x = ", "x = f()"]
    assert server.asked[1]["t_max_predict_ms"] == 1000
    assert len(vim.ahead) == 1
    # Taking the suggestion finds what follows it.
    found = vim.moved(at("x = f()"))
    assert (found.source, found.text) == ("memory", "\ny = 2")


def test_typing_through_is_answered_from_memory_and_asked_anew_in_the_background():
    server = Server("func()", "ahead", "()!")
    vim = editor(server)
    vim.moved(at("x = "))
    vim.work_in_background()
    found = vim.moved(at("x = func"))
    assert (found.text, found.source, found.answer) == ("()", "memory", None)
    assert len(server.asked) == 2
    vim.work_in_background()
    # What follows the suggestion is known; the position's own request is not.
    assert [request["prompt"] for request in server.asked[2:]] == ["x = func"]
    assert vim.moved(at("x = func")).text == "()!"


def test_a_key_leaves_no_work_behind_for_its_old_place():
    server = Server("abc", "d")
    vim = editor(server)
    vim.moved(at("x = "))
    vim.moved(at("y = "))
    vim.work_in_background()
    assert [request["prompt"] for request in server.asked] == ["x = ", "y = ", "y = d"]


def test_much_text_behind_the_cursor_is_not_asked_about():
    server = Server()
    assert editor(server).moved(at("f(", "123456789\n")).source == "filter"
    assert server.asked == []


def test_an_empty_answer_is_remembered_too():
    server = Server("")
    vim = editor(server)
    assert (vim.moved(at("x")).text, vim.moved(at("x")).source) == ("", "memory")
    vim.work_in_background()
    assert len(server.asked) == 1


def test_blanks_left_of_an_answer_are_no_suggestion():
    server = Server("a ", "", "b")
    vim = editor(server)
    vim.moved(at("x"))
    vim.work_in_background()
    found = vim.moved(at("xa"))
    assert (found.source, found.text) == ("model", "b")


@pytest.mark.parametrize(
    ("answer", "before", "after", "rest"),
    [
        ("a\n  ", "x", "xa", "\n  "),  # blanks over a line end are a suggestion
        # The rest of the answer has fewer blanks than the line that the editor indented.
        ("if a:\nb", "y\n", "y\nif a:\n    ", ""),
    ],
)
def test_what_is_left_of_an_answer_keeps_no_key_waiting(answer, before, after, rest):
    server = Server(answer, "ahead")
    vim = editor(server)
    vim.moved(at(before))
    vim.work_in_background()
    found = vim.moved(at(after))
    assert (found.source, found.text) == ("memory", rest)
    assert len(server.asked) == 2


def test_chunks_go_along_and_are_evaluated_in_the_background():
    server = Server("text")
    vim = editor(server)
    vim.ring.pick("other.py", ["one", "two", "three"], evicts=True)
    vim.advance_ring()
    (warm_up,) = server.asked
    assert (warm_up["n_predict"], warm_up["prompt"], len(vim.warm_ups)) == (0, "", 1)
    vim.advance_ring()
    vim.moved(at("x"))
    assert len(server.asked) == 2
    extra = {"text": "one\ntwo\nthree\n", "filename": "other.py"}
    assert server.asked[1]["input_extra"] == warm_up["input_extra"] == [extra]
