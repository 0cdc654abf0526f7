"""User templates: the same layouts as the table's, and errors that say what to write."""

import pytest

from speclsp.errors import TemplateError
from speclsp.prompt.families import family_for
from speclsp.prompt.prompt import PromptBudget
from tests.support.prompts import build_prompt

CODE = "def f(x):\n    ret▮ x\n\nf(1)\n"


def laid_out(vocabulary, spell, template, code=CODE):
    prefix, suffix = code.split("▮")
    prompt = build_prompt(
        family_for(vocabulary, template),
        vocabulary,
        prefix=prefix,
        suffix=suffix,
        budget=PromptBudget(n_prompt=512),
    )
    return spell(vocabulary, prompt)


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("codellama", "<PRE> {prefix} <SUF>{suffix} <MID>"),
        ("codellama", "<s><PRE> {prefix} <SUF>{suffix} <MID>{middle}"),
        ("codestral", "[SUFFIX]{suffix}[PREFIX] {prefix}"),
        ("codegemma", "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>"),
        ("deepseek-coder", "<｜fim▁begin｜>{prefix}<｜fim▁hole｜>{suffix}<｜fim▁end｜>"),
        ("granite-code", "<fim_prefix>{prefix}<fim_suffix>{suffix}<fim_middle>{middle}"),
        (
            "qwen",
            (
                "<|repo_name|>{repo}\n<|file_sep|>{path}\n"
                "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>"
            ),
        ),
        (
            "starcoder2",
            (
                "<repo_name>{repo}<file_sep><fim_prefix>{path}\n{prefix}"
                "<fim_suffix>{suffix}<fim_middle>"
            ),
        ),
    ],
)
def test_template_equals_the_built_in_layout(load_model, spell, name, template):
    vocabulary = load_model(name)
    assert laid_out(vocabulary, spell, template) == laid_out(vocabulary, spell, "")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{prefix}", "def f(x):\n    ret"),
        ("<end>{prefix}", "⟦<end>⟧def f(x):\n    ret"),
        ("{{{path}}}\n{prefix}", "{pkg/mod.py}\ndef f(x):\n    ret"),
        ("a < b [x] {suffix}|{prefix}", "a < b [x]  x\n\nf(1)\n|def f(x):\n    ret"),
        ("{prefix}<end>{middle}", "def f(x):\n⟦<end>⟧    ret"),
        ("{prefix} <end> ", "def f(x):\n ⟦<end>⟧     ret"),
    ],
)
def test_template_for_a_model_without_fim_tokens(load_model, spell, template, expected):
    assert laid_out(load_model("chat"), spell, template) == expected


def test_tokens_of_a_template_end_the_text(load_model):
    vocabulary = load_model("chat")
    family = family_for(vocabulary, "<end>{prefix}")
    assert vocabulary.special("<end>") in family.end_tokens
    assert family.name == "template"


@pytest.mark.parametrize(
    ("template", "message", "remedy"),
    [
        ("<end>{suffix}", "lacks {prefix}", "{prefix}"),
        ("<end>", "lacks {prefix}", "{prefix}"),
        ("{prefix}{cursor}", "unknown field {cursor}", "{prefix}, {suffix}, {middle}"),
        ("{prefix}{text}", "unknown field {text}", "{repo}, {path}"),
        ("{prefix}{}", "unknown field {}", "{prefix}"),
        ("{prefix}{prefix}", "{prefix} twice", "once"),
        ("{prefix", "brace without its partner", "{{"),
        ("prefix}", "brace without its partner", "}}"),
        ("{prefix:>4}", "takes no format", "{prefix}"),
        ("{prefix!r}", "takes no format", "{prefix}"),
        ("<PRE>{prefix}", "special token <PRE>", "card"),
        ("[SUFFIX]{suffix}{prefix}", "special token [SUFFIX]", "card"),
        ("{prefix}{middle}<end>", "after {middle}", "at the end"),
    ],
)
def test_template_errors_say_what_to_write(load_model, template, message, remedy):
    with pytest.raises(TemplateError) as caught:
        family_for(load_model("chat"), template)
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_blank_template_is_none(load_model):
    vocabulary = load_model("qwen")
    assert family_for(vocabulary, "  ").name == "qwen2.5-coder"
