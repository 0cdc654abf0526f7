"""What real processes learn: counted once, and there after they were killed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_speclsp import ForkedSpeclsp
from waiting import until

from speclsp import embedded
from speclsp.engine.llama.vocabulary import load_vocabulary
from speclsp.ngrams.files import open_statistics

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("private_folders")]

TEXT = "def quotient_of(first_number, second_number):\n    return first_number / second_number\n"
BEGUN = "def quotient_of(first_number, "


class Process:
    """``speclsp complete``, fed line by line."""

    def __init__(self, *options: str) -> None:
        self.process = ForkedSpeclsp("complete", *options)

    def ask(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "result" in answer, answer
        return answer["result"]

    def accept(self, text: str = TEXT) -> None:
        assert self.ask("accepted", text=text, path="a.py") == {"nChars": len(text)}

    def complete(self, prefix: str = BEGUN) -> str:
        answer = self.ask("complete", prefix=prefix, path="b.py", languageId="python")
        return str(answer["text"])

    def n_proposed(self) -> int:
        """How many tokens ngram-cache proposes where the accepted text was begun again."""
        self.complete()
        drafters = self.ask("statistics")["totals"]["drafters"]
        return int(drafters["ngram-cache"]["nProposed"])

    def end(self) -> str:
        """End the input, and return what was written to standard error."""
        errors = self.process.end()
        assert self.process.returncode == 0, errors
        return errors

    def kill(self) -> None:
        self.process.kill()
        self.process.end()


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start_process(*options: str) -> Process:
        started.append(Process("--mode", "tree", "--threads", "1", *options))
        return started[-1]

    yield start_process
    for each in started:
        if each.process.returncode is None:
            each.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.ngrams"


def options_of(sources: str, path: Path) -> list[str]:
    persist = [] if sources in ("store", "both") else ["--no-persist"]
    file = ["--lookup-cache-dynamic", str(path)] if sources in ("file", "both") else []
    return [*persist, *file]


def in_file(path: Path, text: str = TEXT) -> int:
    """How often the file has seen the last token of a text after the four tokens before it."""
    *gram, token = load_vocabulary(embedded.embedded_target()).tokenize(text).tolist()[:5]
    return open_statistics(path, None).tables.followers(tuple(gram)).get(token, 0)


def journal_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.journal")


def test_a_text_is_proposed_alike_from_the_store_the_file_and_both(start, tmp_path, monkeypatch):
    proposed: dict[str, list[int]] = {}
    for sources in ("store", "file", "both"):
        path = tmp_path / f"{sources}.ngrams"
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / sources))
        # Alone, so that the passes do not depend on what other drafters know.
        options = ("--mode", "first", "--drafters", "ngram-cache", *options_of(sources, path))
        first = start(*options)
        unknown = first.n_proposed()
        first.accept()
        first.end()
        for _ in range(2):
            later = start(*options)
            proposed.setdefault(sources, []).append(later.n_proposed())
            later.accept()
            later.end()
    once, twice = proposed["store"]
    # Measured: 8 proposals from the prompt itself, 9 and 11.  Seen once is not enough for a draft
    # from the text alone, which tests/drafting/test_ngram_cache.py shows by thresholds.
    assert once - unknown <= 1 < twice - unknown
    assert list(proposed.values()) == 3 * [[once, twice]]


@pytest.mark.parametrize("sources", ["file", "both"])
def test_a_killed_process_loses_nothing_that_reached_the_journal(start, path, sources):
    process = start(*options_of(sources, path))
    process.complete()
    process.accept()
    process.accept()
    until(lambda: journal_of(path).exists() and journal_of(path).read_bytes().count(b"\n") == 2)
    process.kill()
    assert in_file(path) == 0
    later = start(*options_of(sources, path))
    assert later.n_proposed() > 0
    assert "Problem" not in later.end()
    assert in_file(path) == 2
    assert not journal_of(path).exists()


def test_a_process_that_is_killed_at_once_leaves_everything_whole(start, path):
    for _ in range(2):
        process = start(*options_of("both", path))
        process.complete()
        process.accept()
        process.kill()
    later = start(*options_of("both", path))
    later.accept()
    errors = later.end()
    assert "damaged" not in errors
    assert 1 <= in_file(path) <= 3


def test_what_the_model_writes_counts_as_in_llama_cpp(start, path):
    process = start(*options_of("file", path), "--lookup-cache-update", "generated")
    text = process.complete("def add(a, b):\n    return ")
    assert text
    process.end()
    tables = open_statistics(path, None).tables
    last = load_vocabulary(embedded.embedded_target()).tokenize(f"return {text}").tolist()
    assert tables.followers((last[-2],)).get(last[-1]) == 1
