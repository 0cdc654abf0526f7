"""What a comparison reads beforehand, whom it types to, and where it decodes."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.peers import comparison as comparison_module
from benchmarks.peers.comparison import (
    Comparison,
    Plan,
    check_files,
    chosen_servers,
    decode_places,
    without_kinds,
)
from benchmarks.peers.report import place_lines
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.backends.weights import LlamaLoader
from speclsp.embedded import embedded_draft, embedded_target
from speclsp.errors import StoreError
from speclsp.settings import Settings
from tests.benchmarks.case_folders import case
from tests.benchmarks.scripted_peers import peer_options

CODE = "".join(
    f"def add_{idx}(a, b):\n    total = a + b\n    return total\n\n\n" for idx in range(20)
)


@pytest.fixture
def comparison(tmp_path):
    options = peer_options(tmp_path, n_predict=8)
    return Comparison(
        settings=Settings(),
        options=options,
        cases=[case("abc")],
        plan=Plan(cases_path=tmp_path, n_rounds=3, n_cases=0, n_keys=1, n_places=2, n_decoded=8),
    )


def test_kinds_of_speculation_are_typed_to_where_they_are_named():
    servers = chosen_servers((), Settings())
    assert [peer.name for peer in without_kinds(servers, ())] == ["speclsp http", "llama-server"]
    named = [peer.name for peer in without_kinds(servers, {"llama-server ngram-mod"})]
    assert named == ["speclsp http", "llama-server", "llama-server ngram-mod"]
    (only,) = chosen_servers(["speclsp", "llama-server ngram-mod"], Settings())
    assert only.name == "llama-server ngram-mod"


@pytest.mark.real
@pytest.mark.parametrize("statistics", [None, b"four"])
def test_models_and_statistics_are_read_before_the_comparison(
    comparison, tmp_path, monkeypatch, statistics
):
    opened: list[Path] = []
    monkeypatch.setattr(
        comparison_module,
        "load_vocabulary",
        lambda path: (opened.append(path), load_vocabulary(path))[1],
    )
    options = replace(comparison.options, draft_model=embedded_draft())
    if statistics is None:
        check_files(replace(comparison, options=options))
    else:
        file = tmp_path / "pairs.bin"
        file.write_bytes(statistics)
        with pytest.raises(StoreError):
            check_files(replace(comparison, options=replace(options, statistics_file=file)))
    assert opened == [embedded_target(), embedded_draft()]


@pytest.mark.real
def test_cases_without_a_project_leave_the_copies_out_with_a_word(comparison, tmp_path):
    tokenizer = LlamaLoader(lambda _level, _line: None).tokenizer(comparison.settings)
    found = decode_places(comparison, tokenizer)
    assert [len(places) for places in found.values()] == [1, 0]
    fewer = "Decoding where an edit begins is at 1 places instead of 6: there are no others."
    none = "Nothing is decoded in a changed copy of a block: no case has a project with a block of"
    assert place_lines(found, 6) == [fewer, f"{none} code that can be copied."]
    (tmp_path / "sums.py").write_text(CODE)
    with_project = replace(comparison.cases[0], project=tmp_path)
    found = decode_places(replace(comparison, cases=[with_project]), tokenizer)
    assert len(found["edits"]) == 6
    assert place_lines(found, 6) == [fewer]
