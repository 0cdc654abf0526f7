"""What is no secret stays; what is kept up to date equals what is made anew."""

import random
import re

import pytest
from masked_by_rules import update_checked
from secret_forms import planted_secrets, read_forms

from speclsp.seam.documents import TextEdit
from speclsp.secrets import masked_text
from speclsp.secrets.masked_text import (
    MOST_SECRETS,
    PLACEHOLDER,
    MaskedText,
    Masking,
    before_secret,
    masked,
    masked_path,
)

STAY = read_forms("stay.txt")
HARMLESS = [form.template for form in STAY if form.kind == "harmless"]


@pytest.mark.parametrize("form", STAY, ids=lambda form: form.template[:30])
def test_what_only_looks_like_a_secret_stays(form):
    for name in form.name.split(","):
        for after in ("", "\n", "\n\nx = 1\n") if "typed" in form.kind else ("\n",):
            assert masked(form.template + after, name) == form.template + after


@pytest.mark.parametrize("form", read_forms("masked.txt"), ids=lambda form: form.template[:30])
def test_shapes_of_tools_and_languages_are_masked(form):
    before, secret, after = re.split("[«»]", form.template)
    for end in ("",) if "typed" in form.kind else ("\n", "\r\n"):
        text = masked(f"{before}{secret}{after}\n".replace("\n", end), form.name)
        assert secret not in text
        assert form.kind == "part" or text == before + PLACEHOLDER + after + end


@pytest.mark.parametrize(
    ("line", "name"),
    [("password hunter22", "a.conf"), ("  tls.key: LS0tLS1CRUdJTiBSU0EgUFJJVkFURQ==", "a.yml")],
)
def test_settings_of_other_forms_are_masked(line, name):
    assert masked(line, name) == line[: line.index(" ", 4) + 1] + PLACEHOLDER


def test_a_parameter_and_the_docstring_below_it_are_no_assignment():
    text = 'def store(self, username, password):\n    """Creates a file."""\n'
    assert masked(text, "a.py") == text


def test_letters_whose_lower_case_is_longer_shift_nothing():
    assert masked('İİİ\npassword = "hunter22"\n', "a.py") == f'İİİ\npassword = "{PLACEHOLDER}"\n'


def test_a_block_without_its_end_is_masked_as_far_as_it_goes():
    begin = "-----BEGIN RSA PRIVATE KEY-----"
    text = f"{begin}\nMIIBOgIBAAJBAKj34GkxFhD9\nvN1sw7Lk4G2r0sQ1u2w\n\ndef f(x):\n    return x\n"
    assert masked(text, "a.py") == f"{begin}{PLACEHOLDER}\n\ndef f(x):\n    return x\n"


def test_any_edits_of_a_long_line_give_what_masking_the_whole_text_gives():
    rng = random.Random(11)
    pieces = [p.lines.replace("\n", " ") + ";" for p in planted_secrets()]
    pieces += [line + ";" for line in HARMLESS] + ["a=1;" * 300] * 30
    parts = [rng.choice(pieces) for _ in range(100)]
    text = MaskedText("a.js")
    n_masked = 0
    for _ in range(60):
        at = rng.randrange(len(parts))
        parts[at : at + rng.randrange(3)] = [rng.choice(pieces) for _ in range(rng.randrange(3))]
        whole = "".join(parts)
        assert len(whole) > 20_000
        update_checked(text, whole, "a.js")
        n_masked += text.text.count(PLACEHOLDER)
    assert n_masked > 60


@pytest.mark.parametrize(
    "beginning", ["client-key: LS0tLS1CRUdJTiBSU0Eg", "curl -H eyJhbGciOiJSUzI1NiJ9."]
)
def test_a_token_is_masked_to_its_end_however_long(beginning):
    rng = random.Random(5)
    token = "".join(rng.choices("abcdefghijklmnopqrstuvwxyzABCDEFGH0123456789", k=5_000))
    begun = beginning.rpartition(" ")[0]
    assert masked(f"{beginning}{token} x\n", "a.py") == f"{begun} {PLACEHOLDER} x\n"


def test_a_secret_that_grows_in_a_long_line_is_masked_to_its_end():
    filler = "f=function(a,b){return a+b};" * 2_000
    value = "hunter22-" * 2_000
    text = MaskedText("a.js")
    text.update(f"{filler}password= {value}'{filler}")
    text.update(f"{filler}password= '{value}'{filler}")
    assert text.text == f"{filler}password= '{PLACEHOLDER}'{filler}"
    text.update(f"{filler}password= '{value[:9_000]}x{value[9_000:]}'{filler}")
    assert text.text == f"{filler}password= '{PLACEHOLDER}'{filler}"
    update_checked(text, f"{filler}pasword= '{value[:9_000]}x{value[9_000:]}'{filler}", "a.js")
    assert "hunter22" not in text.text


@pytest.fixture
def seen(monkeypatch):
    """How many characters were searched each time."""
    seen: list[int] = []
    search = masked_text.secrets_in_lines

    def counting(text, kind):
        seen.append(len(text))
        return search(text, kind)

    monkeypatch.setattr(masked_text, "secrets_in_lines", counting)
    return seen


def test_a_completion_in_a_long_line_is_searched_with_what_is_near(seen):
    before = "f=function(a,b){return a+b};" * 20_000 + "password="
    assert before_secret("'hunter22';g()", before, "a.js") == "'"
    assert before_secret("load();g()", before, "a.js") == "load();g()"
    assert max(seen) < 10_000


def test_a_keystroke_in_a_long_line_looks_at_what_is_near(seen):
    half = "f=function(a,b){return a+b};" * 20_000
    text = MaskedText("a.js")
    text.update(half + half)
    for n_typed in range(1, 9):
        text.update(half + "password"[:n_typed] + half)
    assert seen[0] == 2 * len(half)
    assert max(seen[1:]) < 10_000


def test_a_keystroke_looks_at_the_lines_that_changed_only(seen):
    line = "value = function(argument, other_argument)\n"
    text = MaskedText("a.py")
    text.update(line * 10_000)
    for n_typed in range(1, 9):
        text.update(line * 5_000 + "password"[:n_typed] + "\n" + line * 5_000)
    assert seen[0] == 10_000 * len(line)
    assert max(seen[1:]) <= 5 * len(line)


@pytest.mark.parametrize("name", ["a.py", ".env.toml"])
@pytest.mark.parametrize("before", ["password", "password =", "password = a", "api_key: str ="])
def test_many_blanks_behind_a_name_are_looked_at_once(before, name):
    blanks = " " * 50_000
    assert masked(f"{before}{blanks}(\n", name).startswith(before[:8])
    assert masked(f"{before}{blanks}1 x1(\nx = 1\n", name).endswith("\nx = 1\n")


@pytest.mark.timeout(30)  # looked at once for each name, this took minutes
@pytest.mark.parametrize("piece", ["passwo", "my_password", "password", "secret_old_"])
def test_names_without_end_are_looked_at_once(piece):
    text = piece * 20_000
    assert masked(text, "a.py") == text


def test_nothing_is_taken_where_too_much_would_have_to_be_looked_at():
    text = MaskedText("a.py")
    small = 'password = "hunter22"\n'
    assert text.update(small, n_most=1_000)
    assert not text.update(small + "x = 1\n" * 1_000, n_most=1_000)
    assert (text.raw, text.text) == (small, masked(small, "a.py"))
    assert not text.update(small + "-----BEGIN PRIVATE KEY-----" + "\n" * 2_000, n_most=1_000)
    assert text.update(small + "x = 1\n" * 1_000)
    assert text.text == masked(small, "a.py") + "x = 1\n" * 1_000


def test_a_copy_goes_its_own_way():
    text = MaskedText("a.py")
    text.update('password = "hunter22"\n')
    other = text.copy()
    other.update('x = 1\npassword = "hunter22"\n')
    assert text.text == f'password = "{PLACEHOLDER}"\n'
    assert other.text == f'x = 1\npassword = "{PLACEHOLDER}"\n'


@pytest.mark.parametrize(
    "line", ['password = "hunter22"\n', "-----BEGIN PRIVATE KEY-----\n", "ghp_abcdef1234567890\n"]
)
def test_a_text_of_more_secrets_than_are_kept_is_secret_as_a_whole(line):
    text = MaskedText("a.py")
    few = "x = 1\n" + line * (MOST_SECRETS // 2)
    text.update(few)
    assert not text.is_secret
    text.update(few + line * MOST_SECRETS)
    assert (text.is_secret, text.text, text.masked_offset(0)) == (True, "", None)
    text.update(few + "y = 2\n")
    assert text.text == masked(few + "y = 2\n", "a.py")
    assert text.masked_offset(0) is not None


def test_a_text_that_is_secret_as_a_whole_is_looked_at_again_when_half_of_it_is_gone():
    text = MaskedText("a.py")
    dump = 'password = "hunter22"\n' * (2 * MOST_SECRETS)
    text.update(dump)
    assert text.update(dump + "x", n_most=0)
    assert (text.is_secret, text.text) == (True, "")
    less = dump[: len(dump) // 3]
    assert not text.update(less, n_most=1_000)
    assert text.update(less)
    assert text.text == masked(less, "a.py")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("src/notes_ghp_aB3dE6gH9j.py", f"src/notes_{PLACEHOLDER}.py"),
        ("sk_live_aB3dE6gH9j/a.py", f"{PLACEHOLDER}/a.py"),
        ("src/api_key_test.py", "src/api_key_test.py"),
        ("src/hf_hub_download.py", "src/hf_hub_download.py"),
    ],
)
def test_names_of_files_are_masked_as_texts_are(path, shown):
    assert masked_path(path) == shown


def test_an_offset_behind_a_masked_url_is_the_same_place():
    text = MaskedText("a.py")
    text.update("u = 'postgres://app:hunter22@db'\ny = 1\n")
    offset = text.masked_offset(len(text.raw) - 2)
    assert offset is not None
    assert text.text[offset:] == "1\n"


def test_a_hash_sign_within_a_value_begins_no_comment():
    for name in (".env", "a.sh", "a.conf"):
        assert masked("DB_PASSWORD=Xk#92jdkLs8f\n", name) == f"DB_PASSWORD={PLACEHOLDER}\n"


# --- what was masked stays masked -----------------------------------------------------------------

VALUE = "Kq83mZ_vR9wL2x_"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", '{} = "VALUE"'),
        ("a.py", 'connect({}="VALUE")'),
        ("a.ts", "const {} = 'VALUE';"),
        ("a.yaml", "{}: VALUE"),
        ("a.json", '  "{}": "VALUE",'),
        ("a.sh", "export {}=VALUE"),
        ("a.ini", "{} = VALUE"),
        (".envrc", "{}=VALUE"),
        ("a.go", 'var {} = "VALUE"'),
        ("a.rs", 'let {}: &str = "VALUE";'),
    ],
)
@pytest.mark.parametrize("is_typed", [True, False])
def test_a_value_stays_masked_while_its_name_is_typed_anew(path, line, is_typed):
    line = line.replace("VALUE", VALUE)
    text = MaskedText(path)
    names = ["db_password", *(("db_passphrase")[:n] for n in range(8, 14)), "db_passphras", "x"]
    names += [""] if is_typed else ["y", "db_password"]
    for name in names:
        masking = text.update(f"a = 1\n{line.format(name)}\nb = 2\n")
        assert masking is not None
        assert text.text == f"a = 1\n{line.format(name)}\nb = 2\n".replace(VALUE, PLACEHOLDER)
        assert text.masked_offset(8) is None
    anew = MaskedText(path)
    anew.update(f"a = 1\n{line.format('x')}\nb = 2\n")
    assert VALUE in anew.text or path == ".envrc"


def test_what_is_masked_without_its_name_goes_with_a_change_of_its_own():
    text = MaskedText("a.py")
    text.update(f'password = "{VALUE}"\n')
    text.update(f'x = "{VALUE}"\n')
    assert VALUE not in text.text
    text.update(f'x = "{VALUE[:-3]}"\n')  # what is left of it is its letters
    assert text.text == f'x = "{PLACEHOLDER}"\n'
    text.update('x = "colour"\n')
    assert text.text == 'x = "colour"\n'


def test_a_removed_value_is_masked_where_it_is_pasted_or_undone():
    text = MaskedText("a.py")
    text.update(f'password = "{VALUE}"\nx = ""\n')
    text.update('password = ""\nx = ""\n')
    text.update(f'password = ""\nx = "{VALUE}"\n')
    assert text.text == f'password = ""\nx = "{PLACEHOLDER}"\n'
    text.update("")
    text.update(f'x = 1\ny = ["{VALUE}", "{VALUE}"]\n')
    assert text.text == f'x = 1\ny = ["{PLACEHOLDER}", "{PLACEHOLDER}"]\n'


def test_code_below_a_value_that_was_open_is_shown_once_it_is_closed():
    below = "x = 1\nprint(x, 'abc')\n"
    for line in (
        'password = """abc"""',
        "password = <<EOT\nabc\nEOT",
        'password = ""',
        "password=''",
    ):
        text = MaskedText("a.py")
        for n_typed in range(len(line) + 1):
            text.update(f"{line[:n_typed]}\n{below}")
        assert text.text == masked(f"{line}\n{below}", "a.py"), line
        assert text.text.endswith(below)


def test_a_version_says_what_it_hides_of_the_one_before():
    text = MaskedText("a.py")
    text.update(f'a = 1\nx = "{VALUE}"\npassword = "hunter22"\n')
    before = text.text
    masking = text.update(f'a = 1\npasswd = "{VALUE}"\npassword = "hunter22"\n')
    assert masking is not None
    assert [before[start:end] for start, end in masking.hidden] == [VALUE]
    assert masking.secrets == (VALUE,)
    assert masking.shows_secrets
    masking = text.update(f'a = 1\npasswd = "{VALUE}"\npassword = "hunter223"\n')
    assert masking is not None
    assert masking.secrets == ("hunter223",)
    assert masking.hidden
    assert not masking.shows_secrets
    assert masking.edit == TextEdit(masking.edit.start, masking.edit.start, "")
    masking = text.update(f'ab = 1\npasswd = "{VALUE}"\npassword = "hunter223"\n')
    assert masking == Masking(TextEdit(1, 1, "b"))
