"""Each family's layout, token by token, on vocabularies that llama.cpp has loaded."""

import pytest

from speclsp.errors import NotFimModelError
from speclsp.prompt.chunks import ContextChunk, LaidOutChunk, ShownChunks
from speclsp.prompt.families import family_for, rewrites_regions
from speclsp.prompt.prompt import PromptBudget, PromptLayout
from tests.support.prompts import build_prompt

BUDGET = PromptBudget(n_prompt=512, n_chunks=256)
CODE = "def f(x):\n    ret▮ x\n\nf(1)\n"


def laid_out(load_model, spell, name, code=CODE, *, repo="demo", path="pkg/mod.py", chunks=()):
    vocabulary = load_model(name)
    prefix, suffix = code.split("▮")
    layout = PromptLayout(
        family=family_for(vocabulary, ""), vocabulary=vocabulary, layout="anchored"
    )
    prompt = build_prompt(
        family_for(vocabulary, ""),
        vocabulary,
        repo_name=repo,
        path=path,
        prefix=prefix,
        suffix=suffix,
        budget=BUDGET,
        chunks=ShownChunks(tuple(LaidOutChunk(c, layout.encode_chunk(c)) for c in chunks)),
    )
    return spell(vocabulary, prompt)


LAYOUTS = {
    "qwen": (
        "⟦<|repo_name|>⟧demo\n⟦<|file_sep|>⟧pkg/mod.py\n"
        "⟦<|fim_prefix|>⟧def f(x):\n⟦<|fim_suffix|>⟧ x\n\nf(1)\n⟦<|fim_middle|>⟧    ret"
    ),
    "starcoder2": (
        "⟦<repo_name>⟧demo⟦<file_sep>⟧"
        "⟦<fim_prefix>⟧pkg/mod.py\ndef f(x):\n⟦<fim_suffix>⟧ x\n\nf(1)\n⟦<fim_middle>⟧    ret"
    ),
    "granite-code": ("⟦<fim_prefix>⟧def f(x):\n⟦<fim_suffix>⟧ x\n\nf(1)\n⟦<fim_middle>⟧    ret"),
    "mellum": (
        "⟦<filename>⟧pkg/mod.py\n⟦<fim_suffix>⟧ x\n\nf(1)\n"
        "⟦<fim_prefix>⟧def f(x):\n⟦<fim_middle>⟧    ret"
    ),
    "mellum2": (
        "⟦<filename>⟧pkg/mod.py\n⟦<fim_suffix>⟧ x\n\nf(1)\n"
        "⟦<fim_prefix>⟧def f(x):\n⟦<fim_middle>⟧    ret"
    ),
    "granite-4": ("⟦<|fim_prefix|>⟧def f(x):\n⟦<|fim_suffix|>⟧ x\n\nf(1)\n⟦<|fim_middle|>⟧    ret"),
    "glm": ("⟦<|code_prefix|>⟧def f(x):\n⟦<|code_suffix|>⟧ x\n\nf(1)\n⟦<|code_middle|>⟧    ret"),
    "qwen3.5": (
        "⟦<|repo_name|>⟧demo\n⟦<|file_sep|>⟧pkg/mod.py\n"
        "⟦<|fim_prefix|>⟧def f(x):\n⟦<|fim_suffix|>⟧ x\n\nf(1)\n⟦<|fim_middle|>⟧    ret"
    ),
    "deepseek-coder": (
        "⟦<｜begin▁of▁sentence｜>⟧⟦<｜fim▁begin｜>⟧def f(x):\n"
        "⟦<｜fim▁hole｜>⟧ x\n\nf(1)\n⟦<｜fim▁end｜>⟧    ret"
    ),
    "deepseek-coder-v2": (
        "⟦<｜begin▁of▁sentence｜>⟧⟦<｜fim▁begin｜>⟧def f(x):\n"
        "⟦<｜fim▁hole｜>⟧ x\n\nf(1)\n⟦<｜fim▁end｜>⟧    ret"
    ),
    "codegemma": (
        "⟦<bos>⟧⟦<|fim_prefix|>⟧def f(x):\n⟦<|fim_suffix|>⟧ x\n\nf(1)\n⟦<|fim_middle|>⟧    ret"
    ),
    # SentencePiece's implicit space: before the prefix, not before suffix and middle.
    "codellama": "⟦<s>⟧⟦▁<PRE>⟧ def f(x):\n⟦▁<SUF>⟧ x\n\nf(1)\n⟦▁<MID>⟧    ret",
    "codellama-by-ids": "⟦<s>⟧⟦▁<PRE>⟧ def f(x):\n⟦▁<SUF>⟧ x\n\nf(1)\n⟦▁<MID>⟧    ret",
    "codestral": "⟦<s>⟧⟦[SUFFIX]⟧ x\n\nf(1)\n⟦[PREFIX]⟧ def f(x):\n    ret",
    "seed-coder": (
        "⟦<[begin▁of▁sentence]>⟧⟦<[fim-suffix]>⟧ x\n\nf(1)\n"
        "⟦<[fim-prefix]>⟧def f(x):\n⟦<[fim-middle]>⟧    ret"
    ),
    "generic": "⟦<before>⟧def f(x):\n⟦<after>⟧ x\n\nf(1)\n⟦<gap>⟧    ret",
    "generic-repository": (
        "⟦<where>⟧demo\n⟦<next>⟧pkg/mod.py\n"
        "⟦<before>⟧def f(x):\n⟦<after>⟧ x\n\nf(1)\n⟦<gap>⟧    ret"
    ),
}


FAMILIES = {
    "qwen": "qwen2.5-coder",
    "mellum2": "mellum",
    "qwen3.5": "qwen2.5-coder",
    "deepseek-coder-v2": "deepseek-coder",
    "codellama-by-ids": "codellama",
    "generic-repository": "generic",
}
"""The families of those that are not called so themselves."""


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout(load_model, spell, name):
    assert family_for(load_model(name), "").name == FAMILIES.get(name, name)
    assert laid_out(load_model, spell, name) == LAYOUTS[name]


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        # With no line before the cursor's, the cursor's own comes first and takes the space.
        ("codestral", "ret▮", "⟦<s>⟧⟦[SUFFIX]⟧⟦[PREFIX]⟧ ret"),
        ("codestral", "▮", "⟦<s>⟧⟦[SUFFIX]⟧⟦[PREFIX]⟧"),
        ("codellama", "ret▮", "⟦<s>⟧⟦▁<PRE>⟧⟦▁<SUF>⟧⟦▁<MID>⟧ret"),
        ("generic", "▮", "⟦<before>⟧⟦<after>⟧⟦<gap>⟧"),
        ("generic", "▮\r\n", "⟦<before>⟧⟦<after>⟧\n⟦<gap>⟧"),
        ("generic", "a\r\nb▮c\r\nd", "⟦<before>⟧a\n⟦<after>⟧c\nd⟦<gap>⟧b"),
        ("generic", "a\rb▮c\rd", "⟦<before>⟧a\n⟦<after>⟧c\nd⟦<gap>⟧b"),
        ("generic", "é\n𝒳▮🙂\n", "⟦<before>⟧é\n⟦<after>⟧🙂\n⟦<gap>⟧𝒳"),
        ("generic", "<after>▮<gap>", "⟦<before>⟧⟦<after>⟧<gap>⟦<gap>⟧<after>"),
    ],
)
def test_odd_cursors(load_model, spell, name, code, expected):
    vocabulary = load_model(name)
    assert vocabulary.special("<0x0A>") is None
    assert laid_out(load_model, spell, name, code) == expected


def test_special_token_names_in_names_stay_text(load_model, spell):
    text = laid_out(
        load_model, spell, "qwen", "▮", repo="<|file_sep|>", path="<|fim_middle|>/a\nb.py"
    )
    assert text == (
        "⟦<|repo_name|>⟧<|file_sep|>\n⟦<|file_sep|>⟧<|fim_middle|>/a b.py\n"
        "⟦<|fim_prefix|>⟧⟦<|fim_suffix|>⟧⟦<|fim_middle|>⟧"
    )


CHUNKS = (
    ContextChunk(path="a.py", text="x = 1\n", key="a"),
    ContextChunk(path="b.py", text="f()\n", key="b"),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "qwen",
            (
                "⟦<|repo_name|>⟧demo\n⟦<|file_sep|>⟧a.py\nx = 1\n\n⟦<|file_sep|>⟧b.py\nf()\n\n"
                "⟦<|file_sep|>⟧pkg/mod.py\n⟦<|fim_prefix|>⟧⟦<|fim_suffix|>⟧⟦<|fim_middle|>⟧"
            ),
        ),
        (
            "starcoder2",
            (
                "⟦<repo_name>⟧demo⟦<file_sep>⟧a.py\nx = 1\n⟦<file_sep>⟧b.py\nf()\n"
                "⟦<file_sep>⟧⟦<fim_prefix>⟧pkg/mod.py\n⟦<fim_suffix>⟧⟦<fim_middle>⟧"
            ),
        ),
        (
            "codegemma",
            (
                "⟦<bos>⟧x = 1\n⟦<|file_separator|>⟧f()\n⟦<|file_separator|>⟧"
                "⟦<|fim_prefix|>⟧⟦<|fim_suffix|>⟧⟦<|fim_middle|>⟧"
            ),
        ),
        (
            "mellum",
            (
                "⟦<filename>⟧a.py\nx = 1\n\n⟦<filename>⟧b.py\nf()\n\n"
                "⟦<filename>⟧pkg/mod.py\n⟦<fim_suffix>⟧⟦<fim_prefix>⟧⟦<fim_middle>⟧"
            ),
        ),
        (
            "codestral",
            (
                "⟦<s>⟧⟦[SUFFIX]⟧⟦[PREFIX]⟧+++++ a.py\nx = 1\n\n\n+++++ b.py\nf()\n\n\n"
                "+++++ pkg/mod.py\n"
            ),
        ),
        (
            "deepseek-coder",
            (
                "⟦<｜begin▁of▁sentence｜>⟧⟦<｜fim▁begin｜>⟧# a.py\nx = 1\n\n\n# b.py\nf()\n\n\n"
                "# pkg/mod.py\n⟦<｜fim▁hole｜>⟧⟦<｜fim▁end｜>⟧"
            ),
        ),
    ],
)
def test_context_from_other_files(load_model, spell, name, expected):
    assert laid_out(load_model, spell, name, "▮", chunks=CHUNKS) == expected


@pytest.mark.parametrize(
    ("name", "end_names"),
    [
        ("qwen", ("<|endoftext|>", "<|fim_pad|>", "<|file_sep|>", "<|fim_middle|>")),
        ("starcoder2", ("<|endoftext|>", "<file_sep>", "<repo_name>", "<fim_pad>")),
        ("deepseek-coder", ("<｜end▁of▁sentence｜>", "<|EOT|>", "<｜fim▁hole｜>")),
        ("codegemma", ("<eos>", "<|file_separator|>", "<|fim_prefix|>")),
        ("codestral", ("</s>", "[PREFIX]", "[SUFFIX]", "[MIDDLE]")),
        ("granite-code", ("<|endoftext|>", "<filename>", "<reponame>")),
    ],
)
def test_end_tokens(load_model, name, end_names):
    vocabulary = load_model(name)
    ends = family_for(vocabulary, "").end_tokens
    assert [n for n in end_names if vocabulary.special(n) not in ends] == []
    assert not ends & set(vocabulary.tokenize("def f(x):\n    ret").tolist())


def test_codellama_ends_with_eot(load_model):
    for name in ("codellama", "codellama-by-ids"):
        vocabulary = load_model(name)
        named = {vocabulary.text(token) for token in family_for(vocabulary, "").end_tokens}
        assert {"▁<EOT>", "</s>", "▁<PRE>", "▁<SUF>", "▁<MID>"} <= named


@pytest.mark.parametrize(
    ("name", "model", "missing"),
    [
        ("chat", "'Chatty 7B'", ("prefix", "suffix", "middle")),
        ("half", "The model cannot", ("suffix", "middle")),
    ],
)
def test_model_without_fim_tokens(load_model, name, model, missing):
    with pytest.raises(NotFimModelError) as caught:
        family_for(load_model(name), "")
    message = str(caught.value)
    assert model in message
    for role in ("prefix", "suffix", "middle"):
        assert (f"{role} (such as <|fim_{role}|>)" in message) == (role in missing)
    for other in ("Qwen2.5-Coder", "StarCoder2", "DeepSeek-Coder", "CodeGemma", "Codestral"):
        assert other in caught.value.remedy
    assert "fim_template" in caught.value.remedy


def test_embedded_model_has_the_repository_format(vocabulary):
    family = family_for(vocabulary, "")
    assert family.name == "qwen2.5-coder"
    assert family.bos is None


@pytest.mark.parametrize(
    ("name", "rewrites"),
    [
        ("zeta-2-Q4_K_M.gguf", True),
        ("zed-industries_zeta-2.1.gguf", True),
        ("Lacuna-V1-Q8_0.gguf", True),
        ("sweep-next-edit-1.5b.q8_0.v2.gguf", False),  # keeps Qwen2.5-Coder's
        ("qwen2.5-coder-7b-q8_0.gguf", False),
        ("grazetasty.gguf", False),
    ],
)
def test_models_that_rewrite_regions(name, rewrites):
    assert rewrites_regions(name) == rewrites
