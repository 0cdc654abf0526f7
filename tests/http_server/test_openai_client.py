"""OpenAI's own client against a real ``speclsp http`` process."""

from collections.abc import Iterator

import openai
import pytest
from speclsp_http import HEAD, INFILL, TIMEOUT_S, Server

pytestmark = pytest.mark.real

KEY = "the-key-of-this-test"
N_STREAMED = 96
"""Tokens, so many that their parts do not all come with the last one on a busy machine."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("openai")
    server = Server(folder, "--engine", "own", "--mode", "tree", SPECLSP_HTTP_KEY=KEY)
    yield server
    assert KEY not in server.close()


def connected(server: Server, key: str = KEY) -> openai.OpenAI:
    return openai.OpenAI(
        api_key=key, base_url=f"{server.address}/v1", timeout=TIMEOUT_S, max_retries=0
    )


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with connected(server) as client:
        yield client


def test_the_model_is_listed(client):
    (model,) = client.models.list().data
    assert (model.id, model.owned_by) == ("embedded-target-f16", "speclsp")
    assert client.models.retrieve(model.id) == model


def test_a_completion_streams_as_it_is_given_whole(client):
    whole = client.completions.create(
        model="any", prompt=HEAD, max_tokens=N_STREAMED, temperature=0
    )
    (choice,) = whole.choices
    assert (choice.finish_reason, whole.object) == ("length", "text_completion")
    assert whole.usage.completion_tokens == N_STREAMED
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + N_STREAMED
    parts = [
        *client.completions.create(
            model="any",
            prompt=HEAD,
            max_tokens=N_STREAMED,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    ]
    texts = [part.choices[0].text for part in parts if part.choices]
    assert "".join(texts) == choice.text
    assert len(parts) > 2
    assert len({part.id for part in parts}) == 1
    assert [part.usage.completion_tokens for part in parts if part.usage] == [N_STREAMED]


def test_stops_suffixes_scores_and_seeds(client):
    def create(**options: object) -> openai.types.Completion:
        given = {"model": "any", "prompt": HEAD, "max_tokens": 12, "temperature": 0, **options}
        return client.completions.create(**given)

    text = create().choices[0].text
    word = text.split()[1]
    cut = create(stop=[word]).choices[0]
    assert (cut.text, cut.finish_reason) == (text.partition(word)[0], "stop")
    assert "total" in create(suffix="\n").choices[0].text
    scored = create(logprobs=2).choices[0].logprobs
    assert [len(one["top_logprobs"]) for one in scored.to_dict()["content"]] == [2] * 12
    drawn = [create(temperature=1.5, seed=seed).choices[0].text for seed in (5, 5, 6)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("suffix", [None, "\n"])
def test_several_prompts_have_a_choice_each(client, suffix):
    several, alone = (
        client.completions.create(
            model="any", prompt=prompt, suffix=suffix, max_tokens=4, temperature=0
        )
        for prompt in ([HEAD, "x = "], HEAD)
    )
    assert [choice.index for choice in several.choices] == [0, 1]
    assert several.choices[0].text == alone.choices[0].text


def test_a_character_of_several_tokens_is_streamed_whole(client):
    """The embedded vocabulary has two tokens for é, and greedy text repeats the pattern."""
    prompt = "é" * 60
    parts = [
        part.choices[0].text
        for part in client.completions.create(
            model="any", prompt=prompt, max_tokens=11, temperature=0, stream=True
        )
        if part.choices
    ]
    whole = client.completions.create(model="any", prompt=prompt, max_tokens=11, temperature=0)
    assert "".join(parts) == whole.choices[0].text
    assert "é" in "".join(parts)
    assert not any("\ufffd" in part for part in parts)


def test_errors_are_those_that_the_client_knows(server, client):
    with connected(server, "other") as stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()
    with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
        client.completions.create(model="any", prompt="x " * 9000)
    with pytest.raises(openai.BadRequestError, match="but got 99"):
        client.completions.create(model="any", prompt="x", n=99)
    with pytest.raises(openai.BadRequestError, match="gives no prompt back"):
        client.completions.create(model="any", prompt="x", echo=True)
    with pytest.raises(openai.InternalServerError, match="answers no chats"):
        client.chat.completions.create(model="any", messages=[])
    with pytest.raises(openai.InternalServerError, match="has no /v1/embeddings"):
        client.embeddings.create(model="any", input="x")


def test_a_key_is_asked_for_in_either_header_but_of_who_asks_for_health(server):
    assert server.send("/infill", INFILL)[0] == 401
    assert server.send("/infill", INFILL, Authorization="Bearer other")[0] == 401
    assert server.send("/health")[0] == 200
    assert server.send("/infill", INFILL, Authorization=f"Bearer {KEY}")[0] == 200
    assert server.send("/v1/models", X_Api_Key=KEY)[0] == 200
