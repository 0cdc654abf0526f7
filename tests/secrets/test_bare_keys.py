"""Keys without their markers are masked wherever they were cut; checksums and names stay."""

import base64
import random
import string
import textwrap
from unittest.mock import Mock

import pytest
from made_keys import MadeKey, made_keys
from masked_by_rules import update_checked

from speclsp.secrets import masked_text, private_keys
from speclsp.secrets.masked_text import PLACEHOLDER, MaskedText, masked

KEYS = made_keys()
BEFORE = "x = 1\n\n# ours, from the old machine\n"
AFTER = "\n\ndef f(x):\n    return x\n"


def kind(key: MadeKey) -> str:
    return f"{key.kind}-{len(key.lines)}"


def assert_masked(text: str, lines: list[str] | tuple[str, ...]) -> None:
    left = masked(text, "a.py")
    assert PLACEHOLDER in left
    for line in lines:
        pieces = [line[at : at + 12] for at in range(0, max(1, len(line) - 12), 12)]
        assert not [piece for piece in pieces if len(piece) > 6 and piece in left]


@pytest.mark.parametrize("key", KEYS, ids=kind)
def test_a_body_alone_is_masked_and_nothing_beside_it(key):
    text = BEFORE + "\n".join(key.lines) + AFTER
    assert masked(text, "a.py") == BEFORE + PLACEHOLDER + AFTER


@pytest.mark.parametrize("key", KEYS, ids=kind)
@pytest.mark.parametrize(
    ("before", "between", "after"),
    [
        ("a:\n  key: |\n    ", "\n    ", "\n  b: 1\n"),
        ("# ", "\n# ", "\nx = 1\n"),
        ("// ", "\n// ", "\n"),
        ('String[] k = {\n    "', '\\n",\n    "', '"};\n'),
        ('k =\n    "', '\\n" +\n    "', '";\n'),
        ("x\r\n\r\n", "\r\n", "\r\nx = 1\r\n"),
        ("const k = `\n", "\n", "`;\n"),
    ],
)
def test_a_body_is_masked_however_its_lines_are_written(key, before, between, after):
    assert_masked(before + between.join(key.lines) + after, key.lines)


@pytest.mark.parametrize("key", KEYS[:-1], ids=kind)
@pytest.mark.parametrize("between", ["\\n", "\\\\n", "\\r\\n", "", "%0A"])
def test_a_body_on_one_line_is_masked(key, between):
    line = between.join(key.lines)
    assert masked(f'{{"k": "{line}{between}"}}\n', "a.json") == f'{{"k": "{PLACEHOLDER}"}}\n'


@pytest.mark.parametrize("key", KEYS, ids=kind)
def test_what_a_window_left_of_a_key_is_masked(key):
    for n_gone in range(1, len(key.lines)):
        rest = key.lines[n_gone:]
        if len("".join(rest)) > 20:
            assert_masked("\n".join((*rest, key.ending)) + AFTER, rest)
            assert_masked(BEFORE + "\n".join((*rest, key.ending)) + AFTER, rest)
    body = "\n".join((*key.lines, key.ending))
    for n_gone in (3, 70, 101):
        if n_gone + 30 < len("\n".join(key.lines)):
            left = body[n_gone:]
            assert_masked(left + AFTER, left.split("\n")[:-1])
            assert_masked(left.replace("\n", "\\n"), left.split("\n")[:-1])
    for n_left in range(100, len(body) - len(key.ending), 301):
        assert_masked(BEFORE + body[:n_left], body[:n_left].split("\n"))


@pytest.mark.parametrize("key", [key for key in KEYS if len(key.lines) > 6], ids=kind)
def test_the_middle_of_a_key_is_masked(key):
    for n_gone in (1, 2, 3, len(key.lines) // 2):
        middle = key.lines[n_gone:-2]
        assert_masked(BEFORE + "\n".join(middle) + AFTER, middle)
    middle = key.lines[2:-2]
    assert_masked("\n".join(middle)[30:-30], middle[1:-1])
    assert_masked("x = 1\nkey: |\n    " + "\n    ".join(middle) + "\n", middle)


@pytest.mark.parametrize("seed", range(6))
def test_any_part_of_100_characters_is_masked(seed):
    rng = random.Random(seed)
    for key in made_keys(seed):
        body = "\n".join(key.lines)
        start = rng.randrange(max(1, len(body) - 100))
        part = body[start : rng.randrange(min(start + 100, len(body)), len(body) + 1)]
        if len(part) >= 100:
            left = masked(f"DATA = '''\n{part}\n'''\n", "a.py")
            assert not [line for line in part.split("\n") if len(line) >= 20 and line in left]


def test_checksums_data_uris_alphabets_and_names_stay():
    rng = random.Random(3)
    data = base64.b64encode(rng.randbytes(900)).decode()
    sums = "\n".join(rng.randbytes(32).hex() for _ in range(9))
    for text in (
        f"keys:\n{sums}\n",
        f"KEYS = [\n{sums.upper()}\n",
        "\n".join(f'    "sha512-{data[at : at + 86]}==",' for at in range(0, 1_000, 90)),
        f'src="data:image/png;base64,{data}"',
        f'"{string.ascii_uppercase}{string.ascii_lowercase}{string.digits}+/"',
        "names = [\n" + "\n".join(["VeryLongNameOfAConstantThatStandsAlone2X"] * 9),
        "// https://example.org/docs/Web/API/WebGL2RenderingContext/invalidateSubFramebuffer\n",
    ):
        assert masked(text, "a.txt") == text


@pytest.mark.parametrize("key", KEYS, ids=kind)
@pytest.mark.parametrize("n_beside", [1, 2, 40])
def test_digests_and_names_beside_a_key_do_not_hide_it(key, n_beside):
    rng = random.Random(3)
    sums = [rng.randbytes(32).hex() for _ in range(n_beside)]
    names = ["veryLongNameOfSomeFunctionThatStandsAlone"] * n_beside
    for beside in (sums, names):
        assert_masked("\n".join((*beside, *key.lines)) + AFTER, key.lines)
        assert_masked("\n".join((*key.lines, *beside)) + AFTER, key.lines)
        quoted = ('"' + '",\n"'.join(part) + '"' for part in (beside, key.lines, beside))
        assert_masked("x = [\n" + ",\n".join(quoted) + "]\n", key.lines)


@pytest.mark.parametrize("n_beside", [1, 2, 40])
def test_digests_and_names_beside_one_line_do_not_hide_it(n_beside):
    rng = random.Random(3)
    for _ in range(20):
        line = base64.b64encode(rng.randbytes(48)).decode()
        for beside in (rng.randbytes(32).hex(), "veryLongNameOfSomeFunctionThatStandsAlone"):
            after = f'    "{beside}",\n' * n_beside
            assert line not in masked(f'x = [\n    "{line}",\n{after}]\n', "a.py")


@pytest.mark.parametrize("before", ["TLS_DATA=", "tls-data=", "run --tls-x=", "id,", "&_x="])
def test_a_key_behind_an_equals_sign_or_a_comma_is_masked(before):
    for key in KEYS[:-1]:
        assert masked(f"{before}{''.join(key.lines)}\n", ".env") == f"{before}{PLACEHOLDER}\n"


def test_paths_are_no_key():
    path = "src/Main/java2/org/Example/service/Impl/Handler/Base"
    text = f"{path}\n{path[::-1]}\n{path}\n"
    assert masked(text, "a.txt") == text
    assert masked(f"PRIVATE_KEY_HEADERS = \\\n{text}", "Makefile").endswith(text)


_LINE = "Ab3" * 21 + "x"


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "lines",
    [
        (_LINE, "=" * 64, _LINE),
        ("=" * 44, "=" * 44, _LINE[:44]),
        ("=" * 44, _LINE[:44], "=" * 44),
        (_LINE, ("Ab3cdefghij=" * 6)[:64], _LINE),
        *[(f"    '{(_LINE * 40)[:n]}' +",) * 3 for n in range(1_984, 2_000)],
    ],
    ids=lambda lines: f"{len(lines[0])}-{lines[1][:9]}",
)
def test_typing_rulers_and_the_longest_lines_gives_what_masking_them_whole_does(lines):
    whole = "x = (\n" + "\n".join(lines) + "\n)\n"
    text = MaskedText("a.py")
    for n_chars in (*range(0, len(whole), 97), len(whole)):
        text.update(whole[:n_chars])
        assert text.text == masked(whole[:n_chars], "a.py")


def pieces() -> list[str]:
    parts = ["def f(x):", "key: |", "private_key: |", "", "", "pass", "=abcd", "A" * 64, '"', "\\n"]
    for key in KEYS:
        lines = key.lines
        parts += ["\n".join(lines), "\n".join(lines[1:]), "\n".join(lines[2:5]), "\\n".join(lines)]
        parts += [key.opening, key.ending, lines[0], lines[-1], '"' + '" +\n"'.join(lines) + '"']
        parts.append("\n".join("    " + line for line in (*lines[3:], key.ending)))
    return parts


def short_rests() -> list[str]:
    """Return ends of keys in lines of 30 letters, or of 12 behind the first, with end markers."""
    return [
        "\n".join((letters[:30], *textwrap.wrap(letters[30:], width), key.ending, ""))
        for key in KEYS
        for width, letters in ((30, "".join(key.lines)[-160:]), (12, "".join(key.lines)[-90:]))
    ]


@pytest.mark.parametrize("rest", short_rests())
def test_breaking_and_mending_a_rest_gives_what_masking_the_whole_text_gives(rest):
    text = MaskedText("a.py")
    for at in range(len(rest)):
        for raw in (rest[:at] + '"' + rest[at:], rest):
            update_checked(text, raw, "a.py")
    update_checked(text, rest[: rest.index("-----END")], "a.py")


@pytest.mark.parametrize("seed", range(12))
def test_any_edits_give_what_masking_the_whole_text_gives(seed):
    rng, parts = random.Random(seed), short_rests() if seed > 5 else pieces()
    text = MaskedText("a.py")
    raw, n_masked = "", 0
    versions = [""]
    for _ in range(70):
        start = rng.randrange(len(raw) + 1)
        if rng.random() < 0.5:
            start = raw.rfind("\n", 0, start) + 1
        elif "-----END" in raw[start:]:
            start = max(0, raw.index("-----END", start) - rng.randrange(250))
        end = min(len(raw), start + rng.choice([0, 0, 1, 5, 65, 300]))
        inserted = rng.choice([rng.choice(parts), rng.choice(parts) + "\n", "\n", "x", "", '"'])
        raw = (raw[:start] + inserted + raw[end:])[:30_000]
        if rng.random() < 0.3:  # undone
            raw = versions[-min(2, len(versions))]
        if seed == 5:  # a single line
            raw = raw.replace("\n", ";")
        versions.append(raw)
        update_checked(text, raw, "a.py")
        n_masked += text.text.count(PLACEHOLDER)
    assert n_masked > 20


@pytest.mark.parametrize(
    "text",
    [
        "A" * 200_000,
        "A \\n" * 50_000,
        " " * 200_000,
        "\\" * 200_000,
        ("A" * 16 + " ") * 12_000,
        ("-----END RSA PRIVATE KEY-----") * 7_000,
        ("A" * 64 + "\n-----END RSA PRIVATE KEY-----\n") * 900,
        "MIIEpAIBAAKCAQEA\n" * 12_000,
        ("A" * 63 + "b\n") * 3_000,
        ("key: |\n" + ("Ab3" * 20 + "\n") * 2) * 900,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_text_is_looked_at_a_bounded_number_of_times(text, monkeypatch):
    seen = 0

    class Counting:
        def __init__(self, expression):
            self.expression = expression

        def match(self, text, *places, how="match"):
            nonlocal seen
            found = getattr(self.expression, how)(text, *places)
            seen += 1 if found is None else found.end() - found.start() + 1
            return found

        def fullmatch(self, text, *places):
            return self.match(text, *places, how="fullmatch")

        def search(self, text, start, end):
            nonlocal seen
            seen += end - start
            return self.expression.search(text, start, end)

        def finditer(self, text):
            nonlocal seen
            seen += len(text)
            return self.expression.finditer(text)

    for name in ("_RUN", "_GAP", "_ABOVE", "_BELOW", "_REST"):
        monkeypatch.setattr(private_keys, name, Counting(getattr(private_keys, name)))
    masked(text, "a.py")
    assert seen < 12 * len(text)


@pytest.mark.timeout(20)
def test_backslashes_before_a_slash_are_read_once():
    text = "Ab3" * 30 + "\\" * 200_000 + "/"
    assert masked(text, "a.py") == PLACEHOLDER


def test_what_is_more_than_may_be_seen_is_not_looked_at(monkeypatch):
    rng = random.Random(3)
    wall = "\n".join(base64.b64encode(rng.randbytes(48)).decode() for _ in range(2_000))
    text = MaskedText("a.py")
    text.update(wall)
    monkeypatch.setattr(masked_text, "bare_keys", Mock(side_effect=AssertionError))
    middle = len(wall) // 2
    assert not text.update(wall[:middle] + "x" + wall[middle:], n_most=10_000)
