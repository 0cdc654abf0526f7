"""What a real process learns is counted once, and there after it was killed."""

import json
from typing import Any

import pytest
from forked_speclsp import ForkedSpeclsp
from waiting import until

from speclsp import embedded
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.ngrams.files import open_statistics

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("private_folders")]

TEXT = "def quotient_of(first_number, second_number):\n    return first_number / second_number\n"


def ask(process: ForkedSpeclsp, method: str, **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert "result" in answer, answer
    return answer["result"]


def complete_what_was_accepted(process: ForkedSpeclsp) -> None:
    ask(process, "complete", prefix=TEXT[:30], path="b.py", languageId="python")


@pytest.mark.parametrize("options", [["--no-persist"], []], ids=["file", "file and store"])
def test_a_killed_process_loses_nothing_that_reached_the_journal(tmp_path, options):
    path = tmp_path / "mine.ngrams"
    journal = path.with_name(f".{path.name}.journal")
    *gram, token = load_vocabulary(embedded.embedded_target()).tokenize(TEXT).tolist()[:5]

    def n_in_file() -> int:
        return open_statistics(path, None).tables.followers(tuple(gram)).get(token, 0)

    options = ["--mode", "tree", "--threads", "1", "--lookup-cache-dynamic", str(path), *options]
    process = ForkedSpeclsp("complete", *options)
    complete_what_was_accepted(process)
    for _ in range(2):
        assert ask(process, "accepted", text=TEXT, path="a.py") == {"nChars": len(TEXT)}
    until(lambda: journal.exists() and journal.read_bytes().count(b"\n") == 2)
    process.kill()
    process.end()
    assert n_in_file() == 0
    later = ForkedSpeclsp("complete", *options)
    complete_what_was_accepted(later)
    assert ask(later, "statistics")["totals"]["drafters"]["ngram-cache"]["nProposed"] > 0
    assert "Problem" not in later.end()
    assert later.returncode == 0
    assert n_in_file() == 2
    assert not journal.exists()
