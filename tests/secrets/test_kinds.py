"""Every form of secret is masked, whole and while it is typed; ordinary code stays."""

import pytest

from speclsp.secrets.masked_text import PLACEHOLDER, MaskedText, masked
from tests.support.secret_forms import FORMS, ORDINARY_LINES, Form

BEFORE = "x = 1\n\n"
AFTER = "\n\ny = 2\n"


def form_id(form: Form) -> str:
    return f"{form.kind}-{form.template[:30]}"


@pytest.mark.parametrize("form", FORMS, ids=form_id)
def test_every_form_is_masked(form):
    for seed in range(10):
        line, secret = form.drawn(seed)
        text = masked(BEFORE + line + AFTER, form.name)
        assert secret not in text
        assert PLACEHOLDER in text
        assert text.startswith(BEFORE)
        assert text.endswith(AFTER)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS[::2], ids=form_id)
def test_typing_a_form_masks_what_masking_it_whole_does(form):
    line, _ = form.drawn(1)
    text = MaskedText(form.name)
    for n_chars in range(len(line) + 1):
        whole = BEFORE + line[:n_chars] + AFTER
        text.update(whole)
        assert text.text == masked(whole, form.name)


def test_the_name_of_a_terraform_variable_masks_its_default_lines_below():
    text = MaskedText("variables.tf")
    block = 'variable "NAME" {\n  type = string\n\n  sensitive = true\n  default = "horse77"\n}\n'
    text.update(block)
    assert text.text == block
    named = block.replace("NAME", "db_password")
    text.update(named)
    assert text.text == named.replace("horse77", PLACEHOLDER)
    text.update(block)  # the name is typed anew
    assert text.text == block.replace("horse77", PLACEHOLDER)


MOST_MASKED = 3
"""Of the ordinary lines: two words with a digit behind "password", and a name that may be one."""


def test_ordinary_lines_written_by_hand_stay_but_for_few():
    changed = [o for o in ORDINARY_LINES if o[1] not in masked(BEFORE + o[1] + AFTER, o[0])]
    assert len(ORDINARY_LINES) > 500
    assert len(changed) <= MOST_MASKED, changed
