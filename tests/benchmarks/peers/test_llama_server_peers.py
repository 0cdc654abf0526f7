"""llama-server's configurations: how each is started, and what each does, where it is there."""

from dataclasses import replace
from pathlib import Path

import pytest
from built_llama_server import WHY_NOT, built_llama_server
from click.testing import CliRunner
from fake_llama_server import as_program

from benchmarks.cases import EditCase
from benchmarks.peers import llama_server as llama_server_module
from benchmarks.peers.contract import PeerOptions
from benchmarks.peers.llama_server import LlamaServerPeer, llama_server_peers
from speclsp.cli.ngram import ngram
from speclsp.embedded import embedded_draft
from tests.benchmarks.scripted_peers import peer_options

PEERS = {peer.name.removeprefix("llama-server").strip(): peer for peer in llama_server_peers()}

CASE = EditCase(
    id="case",
    project=None,
    path="names.py",
    language_id="python",
    prefix=(
        "import os\n\nnames = ['one', 'two', 'three', 'four', 'five']\n"
        "for name in names:\n    print(name, len(name))\n\n"
        "names = ['one', 'two', 'three', 'four', 'five']\n"
        "for name in names:\n    print(name, "
    ),
    typed="len(name))\n",
    suffix="\n",
)

needs_server = pytest.mark.skipif(built_llama_server() is None, reason=WHY_NOT)


@pytest.fixture
def options(tmp_path):
    return peer_options(tmp_path, draft_model=embedded_draft(), llama_server=built_llama_server())


def command(kind: str, options: PeerOptions) -> str:
    peer = PEERS[kind]
    log = options.folder / f"{peer.name.replace(' ', '-')}.log"
    with peer.open(replace(options, llama_server=as_program(options.folder))) as session:
        session.asker.ask(CASE, 0)
    return log.read_text(encoding="utf-8").partition("\n")[0]


def test_it_is_started_as_llama_vim_recommends(options):
    said = command("", replace(options, n_threads=3, n_gpu_layers=-1))
    for flags in (
        f"--model {options.model}",
        "--ctx-size 1024 --batch-size 1024 --ubatch-size 1024 --cache-reuse 256",
        "--threads 3 --n-gpu-layers all",
    ):
        assert flags in said


FLAGS = {
    "": "--spec-type none",
    "ngram-simple": "--spec-type ngram-simple",
    "ngram-map-k": "--spec-type ngram-map-k",
    "ngram-map-k4v": "--spec-type ngram-map-k4v",
    "ngram-mod": "--spec-type ngram-mod",
    "ngram-cache": "--spec-type ngram-cache --lookup-cache-static STATISTICS",
    "draft": "--spec-type draft-simple --spec-draft-model DRAFT --spec-draft-threads 1",
    "draft+ngram-mod": "--spec-type draft-simple,ngram-mod --spec-draft-model DRAFT",
}


def test_there_is_one_of_each_kind():
    assert list(PEERS) == list(FLAGS)


@pytest.mark.parametrize("kind", FLAGS)
def test_each_kind_has_its_flags(kind, options):
    statistics = options.folder / "statistics"
    statistics.write_bytes(b"")
    flags = (
        FLAGS[kind].replace("STATISTICS", str(statistics)).replace("DRAFT", str(embedded_draft()))
    )
    assert flags in command(kind, replace(options, statistics_file=statistics))


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("", {"llama_server": None}, "build_llama_server.sh builds it"),
        ("", {"llama_server": Path("/none")}, "/none is no program"),
        ("ngram-cache", {}, "no statistics file is given"),
        ("ngram-cache", {"statistics_file": Path("/none")}, "there is no statistics file /none"),
        ("draft", {"draft_model": None}, "no draft model is given"),
        ("draft+ngram-mod", {"draft_model": None}, "no draft model is given"),
    ],
)
def test_what_is_missing_is_told(kind, changes, reason, options):
    given = {"llama_server": as_program(options.folder), **changes}
    assert reason in str(PEERS[kind].why_not(replace(options, **given)))


@pytest.mark.parametrize(
    ("n_gpu_layers", "found", "is_told"),
    [(-1, (), True), (-1, ("CUDA0: a GPU",), False), (-1, None, False), (0, (), False)],
)
def test_a_server_for_the_cpu_alone_is_not_compared_with_a_gpu(
    n_gpu_layers, found, is_told, options, monkeypatch
):
    monkeypatch.setattr(llama_server_module, "has_gpu", lambda: True)
    monkeypatch.setattr(llama_server_module, "server_devices", lambda _binary: found)
    server = as_program(options.folder)
    why_not = PEERS[""].why_not(replace(options, llama_server=server, n_gpu_layers=n_gpu_layers))
    assert ("is built for the CPU only" in (why_not or "")) == is_told


def test_nothing_is_missing(options):
    given = replace(options, llama_server=as_program(options.folder), statistics_file=options.model)
    assert [peer.why_not(given) for peer in PEERS.values()] == [None] * len(PEERS)


@needs_server
@pytest.mark.real
@pytest.mark.parametrize("kind", list(PEERS))
def test_each_kind_says_what_the_model_says_alone(kind, options):
    statistics = options.folder / "statistics.lcs"
    source = options.folder / "source"
    source.mkdir()
    (source / "a.py").write_text(CASE.prefix + CASE.typed)
    counted = CliRunner().invoke(
        ngram,
        ["build", str(source), "--format", "llama.cpp", "--order", "2", "-o", str(statistics)],
    )
    assert counted.exit_code == 0, counted.output
    given = replace(options, statistics_file=statistics)
    text, n_accepted = decoded(PEERS[kind], given)
    alone, none_accepted = decoded(PEERS[""], given)
    assert text == alone != ""
    assert none_accepted == 0
    if kind in ("draft", "draft+ngram-mod"):
        assert n_accepted > 0


def decoded(peer: LlamaServerPeer, options: PeerOptions) -> tuple[str, int]:
    prompt = list(range(500, 520)) * 2
    with peer.open(options) as session:
        answer = session.complete(prompt, options.n_predict)
    assert answer.stats.n_predicted == options.n_predict
    assert answer.stats.n_prompt == len(prompt)
    assert answer.stats.n_target_passes == options.n_predict - answer.stats.n_accepted
    return answer.text, answer.stats.n_accepted


@needs_server
@pytest.mark.real
def test_the_prompt_is_kept_and_what_is_typed_costs_little(options):
    with PEERS[""].open(options) as session:
        asker = session.asker
        asker.enter(CASE)
        first = asker.ask(CASE, 0)
        asker.rest()
        # What is typed is not what the model said, so that the server is asked again.
        other = replace(CASE, typed="sorted(names))\n")
        second = asker.ask(other, 3)
        assert session.resident_mib() > 20
        assert session.host_ms_per_step() is None
    assert first.source == second.source == "model"
    assert 0 < second.stats.n_prompt_evaluated < second.stats.n_prompt / 2
    assert first.stats.n_prompt >= first.stats.n_prompt_evaluated > 40
