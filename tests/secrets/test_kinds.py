"""Every form of secret is masked, whole and while it is typed; ordinary code stays."""

from __future__ import annotations

import pytest

from speclsp.secrets.masked_text import PLACEHOLDER, MaskedText, masked
from tests.support.secret_forms import FORMS, Form

BEFORE = "x = 1\n\n"
AFTER = "\n\ny = 2\n"


def form_id(form: Form) -> str:
    return f"{form.kind}-{form.template[:30]}"


@pytest.mark.parametrize("form", FORMS, ids=form_id)
def test_every_form_is_masked(form: Form) -> None:
    for seed in range(10):
        line, secret = form.drawn(seed)
        text = masked(BEFORE + line + AFTER, form.name)
        assert secret not in text
        assert PLACEHOLDER in text
        assert text.startswith(BEFORE)
        assert text.endswith(AFTER)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS[::2], ids=form_id)
def test_typing_a_form_masks_what_masking_it_whole_does(form: Form) -> None:
    line, _ = form.drawn(1)
    text = MaskedText(form.name)
    for n_chars in range(len(line) + 1):
        whole = BEFORE + line[:n_chars] + AFTER
        text.update(whole)
        assert text.text == masked(whole, form.name)


def test_the_name_of_a_terraform_variable_masks_its_default_lines_below() -> None:
    text = MaskedText("variables.tf")
    block = 'variable "NAME" {\n  type = string\n\n  sensitive = true\n  default = "horse77"\n}\n'
    text.update(block)
    assert text.text == block
    named = block.replace("NAME", "db_password")
    text.update(named)
    assert text.text == named.replace("horse77", PLACEHOLDER)
    text.update(block)  # the name is typed anew
    assert text.text == block.replace("horse77", PLACEHOLDER)


@pytest.mark.parametrize(
    "line",
    [
        "# the password is required",
        "# The password is hashed with sha256 and stored.",
        "# the password is too short",
        'renderPass = "shadows"',
        'find_user_pass("Some Realm", "http://example.com/")',
        "p = 0xffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
        "func Import(blob *Blob, password *uint16, flags uint32) error {",
        'secret_name = "db-credentials-2"',
        "session = requests.Session()",
        "session_id = request.session_id",
        'os.environ.get("DB_PASSWORD", "")',
        "echo ${DB_PASSWORD:?is not set}",
        "usage: app --password PASSWORD --verbose",
        "npm config set registry https://registry.npmjs.org/",
    ],
)
def test_ordinary_code_stays(line: str) -> None:
    assert masked(line + "\n", "a.py") == line + "\n"
