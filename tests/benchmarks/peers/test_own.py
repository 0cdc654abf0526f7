"""Our side by HTTP: a real server with the embedded model, asked by llama.vim's logic."""

import pytest

from benchmarks.peers.own import HttpPeer, command_options
from benchmarks.typing_session import replay_typing
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.cli.options import SettingsCommand, given_options
from speclsp.embedded import embedded_target
from speclsp.settings import Settings
from tests.benchmarks.case_folders import case
from tests.benchmarks.scripted_peers import peer_options

CODE = "".join(
    f"def add_{name}(items):\n    total = 0\n    for item in items:\n"
    "        total += item.price\n    return total\n\n\n"
    for name in ("shirts", "shoes", "hats")
)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    options = peer_options(tmp_path_factory.mktemp("http"))
    with HttpPeer(Settings(mode="tree")).open(options) as session:
        yield session


@pytest.mark.real
def test_llama_vim_types_into_it(session):
    """What changes with a key is evaluated, and some keys are answered with more than one token."""
    one = case("    total = 0\n    for item", prefix=f"{CODE}def add_socks(items):\n")
    typed = replay_typing([one], session.asker, seed=1)
    answers = [request.answer for request in typed.requests]
    from_model = [answer for answer in answers if answer.source == "model"]
    assert any("total" in answer.text for answer in answers)
    assert len(from_model) < len(answers)
    first, *others = from_model
    assert others
    assert all(one.stats.n_prompt_evaluated < first.stats.n_prompt / 2 for one in others)
    assert sum(answer.stats.n_accepted for answer in answers) > 0
    assert session.resident_mib() > 10


@pytest.mark.real
def test_a_raw_prompt_is_continued_with_drafts(session):
    prompt = load_vocabulary(embedded_target()).tokenize(CODE).tolist()
    session.complete(prompt, 1)
    answer = session.complete(prompt, 24)
    assert answer.stats.n_predicted == 24
    assert answer.stats.n_prompt_evaluated == 1
    assert answer.stats.n_accepted > 0


def test_the_command_line_says_what_the_settings_are():
    settings = Settings(
        model="a.gguf",
        speculation=False,
        lookup_cache_static=["one.bin", "two.bin"],
        drafter_options={"theirs": {"size_n": 8}},
    )
    command = SettingsCommand("http")
    with command.make_context("http", command_options(settings)) as context:
        assert Settings(**given_options(context.params)) == settings
