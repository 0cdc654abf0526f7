"""What is typed of a secret is masked from the moment on that its name, scheme or prefix tells.

Keys that begin as words do cannot be told from words; passwords have no such excuse.
"""

import os

import pytest
from masked_by_rules import update_checked

from speclsp.secrets.masked_text import MaskedText, masked
from tests.support.secret_forms import FORMS, Form
from tests.support.secret_prefixes import AFTER, BEFORE, leaks, n_shown, prefixes, shows

IS_WHOLE = "SPECLSP_SECRETS_SEEDS" in os.environ
N_SEEDS = int(os.environ.get("SPECLSP_SECRETS_SEEDS", "1"))
STEP = 1 if IS_WHOLE else 3
PASSWORDS = [form for form in FORMS if form.is_password]
KEYS = [form for form in FORMS if not form.is_password]
ON_ONE_LINE = [form for form in PASSWORDS if form.is_told_before and "\n" not in form.template]
MOST_WORDLIKE = 0.02
"""Share of drawn keys that begin as words do."""
LONGEST_WORDLIKE = 20
"""Characters of such a key that are shown at most: as many have digits, or change between cases."""


def form_id(form: Form) -> str:
    return f"{form.kind}-{form.template[:30]}"


@pytest.mark.timeout(60 + 60 * N_SEEDS)
@pytest.mark.parametrize("form", PASSWORDS, ids=form_id)
def test_a_password_is_masked_while_it_is_typed(form):
    shown = [text for seed in range(N_SEEDS) for text in leaks(form, seed, STEP)[:1]]
    # Of a sentence: "the password is hashed" names none, nor do other words that end so.
    is_sentence = "sentence" in form.kind or form.name.endswith(".md")
    assert len(shown) <= (N_SEEDS // 10 if is_sentence else 0), shown


@pytest.mark.timeout(60 + 60 * N_SEEDS)
def test_a_key_is_masked_while_it_is_typed():
    drawn = [(form, seed) for form in KEYS for seed in range(N_SEEDS)]
    shown = [(*key, texts) for key in drawn if (texts := leaks(*key, STEP))]
    assert len(shown) <= max(2, MOST_WORDLIKE * len(drawn)), shown
    for form, seed, texts in shown:
        secret = form.drawn(seed)[1]
        most = max(n_shown(secret, masked(text, form.name)) for text in texts)
        assert most <= LONGEST_WORDLIKE, (form, seed)


@pytest.mark.parametrize("form", ON_ONE_LINE[:: 1 if IS_WHOLE else 4], ids=form_id)
def test_nothing_is_asked_within_a_secret_between_quotes_that_the_editor_closed(form):
    line, secret = form.drawn(0)
    start = line.rindex(secret)
    closing = line[start + len(secret) :]
    text = MaskedText(form.name)
    for n_chars in range(8, len(secret) + 1):
        text.update(BEFORE + line[: start + n_chars] + closing + AFTER)
        assert text.masked_offset(len(BEFORE) + start + n_chars) is None


@pytest.mark.parametrize("form", [f for f in FORMS if "\n" in f.template], ids=form_id)
def test_typing_values_of_several_lines_masks_what_masking_the_whole_text_does(form):
    line, _ = form.drawn(2)
    for after in ("", AFTER, '\nx = """Text."""\n'):
        text = MaskedText(form.name)
        for n_chars in range(len(line) + 1):
            whole = BEFORE + line[:n_chars] + after
            update_checked(text, whole, form.name)
            assert text.text == masked(whole, form.name)
        for n_chars in range(len(line), -1, -7):
            update_checked(text, BEFORE + line[:n_chars] + after, form.name)


def test_what_is_shown_is_counted_by_the_longest_common_part():
    assert shows("hunter2horse", "x = 'unter2ho'")
    assert not shows("hunter2horse", "x = 'unter2h'")
    assert shows("hunter2", "hunter2")
    assert not shows("hunter2", "hunter")
    assert [n_shown("hunter2horse", text) for text in ("x = 'unter2ho'", "", "rsehunter")] == [
        8,
        0,
        6,
    ]


def test_the_property_looks_at_every_prefix_that_is_long_enough():
    form = Form("password", "a.py", 'password = "{password}"')
    line, secret = form.drawn(1)
    texts = [text for text, _ in prefixes(form, 1)]
    assert len(texts) == 2 * (len(secret) - 8 + 2)
    assert texts[-2:] == [BEFORE + line, BEFORE + line + AFTER]
    assert leaks(Form("harmless", "a.py", "x = ['{password}']"), 1)


def test_a_key_beside_its_access_key_is_masked_between_quotes_that_the_editor_closed():
    form = next(form for form in KEYS if form.template.startswith('keys = ("AKIA'))
    line, secret = form.drawn(0)
    start = line.index(secret)
    for n_chars in range(8, len(secret) + 1):
        text = BEFORE + line[: start + n_chars] + line[start + len(secret) :] + AFTER
        assert n_shown(secret, masked(text, form.name)) < 8, secret[:n_chars]
