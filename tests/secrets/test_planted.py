"""Every kind of secret is masked in a whole text, in one that is typed, and after every edit."""

import pytest
from secret_forms import planted_secrets

from speclsp.secrets.masked_text import PLACEHOLDER, MaskedText, before_secret, masked

PLANTED = planted_secrets()
BEFORE = "import os\n\n\ndef area(width):\n    return width\n\n"
AFTER = "\n\ndef volume(depth):\n    return depth\n"


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: f"{p.kind}-{p.name}")
def test_a_secret_is_masked_and_the_rest_is_kept(planted):
    text = masked(BEFORE + planted.lines + AFTER, planted.name)
    for secret in planted.secrets:
        assert secret not in text
        assert secret[2:-2] not in text
    assert PLACEHOLDER in text
    assert text.startswith(BEFORE)
    assert text.endswith(AFTER)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: f"{p.kind}-{p.name}")
def test_no_suggestion_on_the_line_of_a_secret(planted):
    text = MaskedText(planted.name)
    text.update(BEFORE + planted.lines + AFTER)
    at = text.raw.index(planted.secrets[0])
    assert text.masked_offset(at) is None
    assert text.masked_offset(at + len(planted.secrets[0])) is None
    assert text.masked_offset(len(BEFORE) - 1) == len(BEFORE) - 1
    offset = text.masked_offset(len(text.raw) - 3)
    assert offset is not None
    assert text.text[offset:] == AFTER[-3:]


@pytest.mark.parametrize("planted", PLANTED[::3], ids=lambda p: f"{p.kind}-{p.name}")
def test_typing_a_text_masks_what_masking_it_whole_does(planted):
    whole = BEFORE + planted.lines + AFTER
    text = MaskedText(planted.name)
    for n_chars in range(len(BEFORE), len(whole) + 1):
        text.update(whole[:n_chars])
        assert text.text == masked(whole[:n_chars], planted.name)
    text.update(whole[: len(BEFORE)])
    assert text.text == BEFORE


def test_a_completion_is_cut_before_a_secret_and_before_a_placeholder():
    assert before_secret(f"x = {PLACEHOLDER}\n", "", "a.py") == "x = "
    assert before_secret(f"x = {PLACEHOLDER[:9]}", "", "a.py") == "x = "
    assert before_secret("if __name__ == '__main__", "", "a.py") == "if __name__ == '__main__"
    assert before_secret('"hunter22"\n', "password = ", "a.py") == '"'
    assert before_secret("harmless", "password = get_", "a.py") == "harmless"
