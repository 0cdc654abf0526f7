"""Bodies of requests: what is read of them, and what is refused in llama-server's words."""

import pytest

from speclsp.http_server.bodies import (
    BodyError,
    completion_body,
    infill_body,
    openai_body,
    read_json,
)

BIG = "x" * (1 << 20)
INFILL = {"input_prefix": "a", "input_suffix": "b"}


def test_the_body_of_an_editor_plugin_is_read():
    body = infill_body(
        {
            **INFILL,
            "prompt": "p",
            "input_extra": [{"filename": "x.py", "text": "t"}, {"text": "u"}],
            "n_predict": 7,
            "t_max_predict_ms": 250,
            "samplers": ["top_k", "top_p", "infill"],
            "stop": "z",
            "n_indent": 4,
            "response_fields": ["content"],
            "cache_prompt": True,
        }
    )
    assert (body.prefixes, body.suffix) == (("ap",), "b")
    asked = body.request
    assert asked.extra == (("x.py", "t"), ("tmp", "u"))
    assert (asked.n_predict, asked.t_max_predict_ms, asked.n_indent) == (7, 250, 4)
    assert (asked.stops, asked.has_infill_sampler) == (("z",), True)
    assert asked.settings["temperature"] == 0.8


@pytest.mark.parametrize(
    ("prompt", "prompts", "has_many"),
    [
        ("a", ("a",), False),
        ([1, 2], ((1, 2),), False),
        ([1, "a"], ((1, "a"),), False),
        (["a", "b"], ("a", "b"), True),
        ([[1], "b"], ((1,), "b"), True),
    ],
)
def test_prompts_are_texts_tokens_or_lists_of_them(prompt, prompts, has_many):
    body = completion_body({"prompt": prompt})
    assert (body.prompts, body.has_many) == (prompts, has_many)


def test_openais_body_is_read():
    body = openai_body(
        {
            "prompt": "a",
            "max_tokens": 5,
            "logprobs": 2,
            "stream": True,
            "prediction": {"type": "content", "content": "c"},
        }
    )
    asked = body.request
    assert (asked.n_predict, asked.n_probs, asked.is_streamed) == (5, 2, True)
    assert body.prediction == "c"
    assert openai_body({"prompt": "a", "max_tokens": 0}).request.n_predict == 0


@pytest.mark.parametrize(
    ("prompt", "prefixes"), [("a", ("a",)), (["a"], ("a",)), (["a", "b"], ("a", "b"))]
)
def test_a_suffix_stands_behind_each_prompt(prompt, prefixes):
    """LangChain's client sends a list of one."""
    body = openai_body({"prompt": prompt, "suffix": "s"})
    assert (body.prefixes, body.suffix, body.prompts) == (prefixes, "s", ())


@pytest.mark.parametrize(
    ("read", "body", "status", "words"),
    [
        (infill_body, {}, 500, "key 'input_suffix' not found"),
        (infill_body, {**INFILL, "input_prefix": 1}, 500, "must be a string"),
        (infill_body, {**INFILL, "input_extra": 3}, 400, '"input_extra" must be an array'),
        (infill_body, {**INFILL, "input_extra": [{}]}, 400, 'must contain a "text" field'),
        (infill_body, {**INFILL, "n_predict": "x"}, 400, "type must be number"),
        (infill_body, {**INFILL, "n_predict": -5}, 400, "but got -5"),
        (infill_body, {**INFILL, "stream": 1}, 400, "type must be boolean"),
        (infill_body, {**INFILL, "stop": [1]}, 400, "list of strings"),
        (infill_body, {**INFILL, "seed": 1.5}, 400, "a seed is a whole number"),
        (completion_body, {}, 400, "key 'prompt' not found"),
        (completion_body, {"prompt": []}, 400, "must not be empty"),
        (completion_body, {"prompt": [1.5]}, 400, "list of tokens and strings"),
        (completion_body, {"prompt": {}}, 400, '"prompt" must be a string'),
        (completion_body, {"prompt": ["a"] * 99}, 400, "at most 16 prompts"),
        (completion_body, {"prompt": "a", "grammar": "x"}, 400, "has no grammar"),
        (openai_body, {}, 400, "key 'prompt' not found"),
        (openai_body, {"prompt": [1, 2], "suffix": "s"}, 400, '"prompt" with a "suffix"'),
        (openai_body, {"prompt": [], "suffix": "s"}, 400, "between 1 and 16 prompts"),
        (infill_body, {**INFILL, "n_cmpl": 0}, 400, "between 1 <= value <= 16, but got 0"),
        (infill_body, {**INFILL, "n_cmpl": 17}, 400, "Field 'n_cmpl'"),
        (completion_body, {"prompt": "a", "stop": ["x"] * 65}, 400, "at most 64 strings"),
        (completion_body, {"prompt": "a", "stop": "x" * 8193}, 400, "of 8192 characters"),
        (infill_body, {**INFILL, "response_fields": ["x"] * 65}, 400, "at most 64 strings"),
        (infill_body, {**INFILL, "input_extra": [{"text": ""}] * 65}, 400, "at most 64 chunks"),
        (infill_body, {**INFILL, "input_extra": [{"text": BIG}]}, 400, "at most 524288 characters"),
        (infill_body, {**INFILL, "prompt": 4 * BIG}, 400, "at most 4194304 characters"),
        (completion_body, {"prompt": BIG + "a"}, 400, "at most 1048576 characters"),
        (completion_body, {"prompt": [BIG, "a"]}, 400, "at most 1048576 characters"),
        (completion_body, {"prompt": [[1] * 600_000] * 2}, 400, "at most 1048576 characters"),
        (completion_body, {"prompt": [1] * 1_048_577}, 400, "at most 1048576 tokens"),
        (openai_body, {"prompt": "a", "prediction": {"content": BIG + "a"}}, 400, "prediction"),
        (openai_body, {"prompt": BIG * 4, "suffix": "a"}, 400, "at most 4194304 characters"),
    ],
)  # fmt: skip
def test_what_is_refused(read, body, status, words):
    with pytest.raises(BodyError, match=words) as error:
        read(body)
    assert error.value.status == status


def test_the_longest_lists_and_texts_are_read():
    extra = [{"filename": "a.py", "text": "x" * 8000}] * 64
    body = {"input_prefix": 4 * BIG, "input_suffix": "", "input_extra": extra, "stop": ["x"] * 64}
    assert len(infill_body(body).request.extra) == len(infill_body(body).request.stops) == 64
    assert completion_body({"prompt": BIG}).prompts == (BIG,)


@pytest.mark.parametrize("data", [b"", b"{bad", b"[]", b'"x"', b"\xff"])
def test_what_is_no_object_of_json_is_refused(data):
    with pytest.raises(BodyError) as error:
        read_json(data)
    assert (error.value.status, error.value.kind) == (500, "server_error")
