"""llama.vim in a replay: files that are entered, left and gone back to."""

from pathlib import Path

import pytest

from benchmarks.askers import Answer
from benchmarks.cases import EditCase
from benchmarks.peers.infill import InfillAnswer, JsonObject
from benchmarks.peers.vim_asker import VimAsker
from speclsp.seam.statistics import RequestStats

COST = RequestStats(n_prompt=10, n_prompt_evaluated=4, n_predicted=3, n_target_passes=3)


class Server:
    """Completes ``word`` to ``words()``."""

    def __init__(self) -> None:
        self.asked: list[JsonObject] = []

    def __call__(self, request: JsonObject) -> InfillAnswer:
        self.asked.append(request)
        written = request["prompt"].rpartition(" ")[2]
        rest = "words()"[len(written) :] if "words()".startswith(written) else ""
        return InfillAnswer(text=rest, stats=COST)

    @property
    def chunks(self) -> list[str]:
        """The files of the last request's chunks."""
        return [chunk["filename"] for chunk in self.asked[-1]["input_extra"]]


def case(name: str, *, project: Path | None = None, end: str = "\n") -> EditCase:
    lines = [f"{name}_{n} = {name}{n}" for n in range(20)]
    return EditCase(
        id=name,
        project=project,
        path=f"{name}.py",
        language_id="python",
        prefix=end.join([*lines, ""]),
        typed=f"x = words(){end}",
        suffix=end,
    )


def asker(server: Server) -> VimAsker:
    ticks = iter(range(10_000))
    return VimAsker(server, n_predict=16, clock=lambda: next(ticks) / 1000)


def test_a_key_waits_for_the_server_and_the_next_for_nothing():
    server, one = Server(), case("one")
    vim = asker(server)
    vim.enter(one)
    first = vim.ask(one, 5)
    assert first == Answer(text="ords()", source="model", ms=1.0, stats=COST)
    vim.shown(first)
    n_asked = len(server.asked)
    assert vim.ask(one, 6) == Answer(text="rds()", source="memory", ms=1.0)
    assert len(server.asked) == n_asked


def test_leaving_a_file_makes_a_chunk_of_it_that_the_server_evaluates_on_the_way():
    server, one, two = Server(), case("one"), case("two")
    vim = asker(server)
    vim.enter(one)
    vim.ask(one, 5)
    vim.enter(two)
    answer = vim.ask(two, 5)
    # Two seconds of the three had a chunk to take: of the file left, and of the one entered.
    *_, first, second, asked = server.asked
    assert [first["n_predict"], second["n_predict"], asked["n_predict"]] == [0, 0, 16]
    # The chunk of the file entered says what stands at the cursor, and went before the request.
    assert server.chunks == ["one.py"]
    assert answer.ms == 1.0


def test_what_is_done_in_the_background_is_no_request_of_the_human():
    server, one = Server(), case("one")
    vim = asker(server)
    vim.enter(one)
    answer = vim.ask(one, 5)
    vim.shown(answer)
    vim.rest()
    vim.taken(answer, len(answer.text))
    found = vim.statistics()
    assert found.prefetch == COST
    # The warm-up of the file's chunk.
    assert found.n_idle_evaluated == 4
    assert vim.statistics() == found


def test_another_project_is_another_editor(tmp_path):
    server = Server()
    one, two = case("one", project=tmp_path), case("two")
    vim = asker(server)
    for each in (one, two):
        vim.enter(each)
        vim.ask(each, 5)
        vim.leave(each)
    assert server.chunks == []
    # Each file's chunk was evaluated when the cursor came there, by its own editor.
    assert vim.statistics().n_idle_evaluated == 2 * COST.n_prompt_evaluated


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_are_the_files(end):
    one = case("one", end=end)
    vim = VimAsker(lambda _request: InfillAnswer(text="a\nb"), n_predict=16)
    vim.enter(one)
    assert vim.ask(one, 2).text == f"a{end}b"
