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
def test_ordinary_code_stays(line):
    assert masked(line + "\n", "a.py") == line + "\n"


MOST_MASKED = 3
"""Of the ordinary lines: two words with a digit behind "password", and a name that may be one."""


def test_ordinary_lines_written_by_hand_stay_but_for_few():
    changed = [o for o in ORDINARY_LINES if o[1] not in masked(BEFORE + o[1] + AFTER, o[0])]
    assert len(ORDINARY_LINES) > 500
    assert len(changed) <= MOST_MASKED, changed


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('passphrase = "correct horse battery staple"', "correct horse battery staple"),
        ("PASSPHRASE=correct horse battery staple", "correct horse battery staple"),
        ('password = "no more than 8 letters"', None),
        ("PGPASSWORD=hunter2xy psql -h db -U app shop", "hunter2xy"),
        ("DB_PASSWORD=horsebattery ./run --and wait for it", "horsebattery"),
        ('h.set("Authorization", "Bearer "+"q7XzK20fPaL9mWv3Rt8")', "q7XzK20fPaL9mWv3Rt8"),
        ("the admin's password = 'hunter2xy'", "hunter2xy"),
        ("Authorization: Basic /q7XzK20fPaL9mWv3Rt8", "/q7XzK20fPaL9mWv3Rt8"),
    ],
)
def test_what_stands_beside_an_expression_or_a_sentence_is_masked(text, secret):
    left = masked(text + "\n", "a.sh")
    assert left == (text.replace(secret, PLACEHOLDER) if secret else text) + "\n"
