"""What is kept of private keys' places equals what is found anew, and nothing is seen too often."""

from __future__ import annotations

import random

from speclsp.secrets.key_blocks import MOST_MARKERS, KeyMarker, key_blocks, key_markers

BEGIN = "-----BEGIN RSA PRIVATE KEY-----"
END = "-----END RSA PRIVATE KEY-----"
BODY = "MIIBOgIBAAJBAKj34GkxFhD9"
PIECES = [
    BEGIN, END, "\n", "\n", BODY, "  ", "# ", "-----BEGIN CERTIFICATE-----", "def f(x):", "\\n",
    "-----END CERTIFICATE-----", "Proc-Type: 4,ENCRYPTED", '"', "-----BEGIN", "-----", "!",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----", "-----END PGP PRIVATE KEY BLOCK-----",
    f"Comment: {BEGIN}",
]  # fmt: skip


def markers_of(text: str, n_most: int = 10**9) -> list[KeyMarker] | None:
    return key_markers(text, [], n_head=0, n_tail=0, shift=len(text), n_most=n_most)


def secrets(text: str) -> list[str]:
    return [text[span.start : span.end] for span in key_blocks(text)]


def test_any_edits_give_what_the_whole_text_gives() -> None:
    rng = random.Random(5)
    text = ""
    kept: list[KeyMarker] = []
    n_blocks = 0
    for _ in range(4_000):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice([0, 0, 1, 5, 40]))
        inserted = "".join(rng.choice(PIECES) for _ in range(rng.randrange(3)))
        new = (text[:start] + inserted + text[end:])[:3_000]
        n_tail = len(text) - end if len(new) == len(text) + len(inserted) - (end - start) else 0
        found = key_markers(
            new, kept, n_head=start, n_tail=n_tail, shift=len(new) - len(text), n_most=10**9
        )
        assert found is not None
        assert [marker.span for marker in found if marker.span] == list(key_blocks(new))
        text, kept = new, found
        n_blocks += sum(marker.span is not None for marker in kept)
    assert n_blocks > 1_000


def test_a_line_of_blanks_in_a_block_is_looked_at_once() -> None:
    blanks = " " * 100_000
    assert secrets(f"{BEGIN}\n{BODY}\n{blanks}!\n") == [f"\n{BODY}"]
    assert secrets(f"{BEGIN}\n{blanks}x!\n") == []


def test_markers_without_an_end_see_what_stands_up_to_the_next() -> None:
    text = f"{BEGIN}\n" * 500
    found = markers_of(text)
    assert found is not None
    assert len(found) == 500
    assert sum(marker.seen_end - marker.start for marker in found[:-1]) < 10 * len(text)


def test_a_key_press_sees_the_block_that_it_is_in_and_no_other() -> None:
    block = f"{BEGIN}\n{BODY * 20}\n{END}\n"
    text = block * 300
    found = markers_of(text)
    assert found is not None
    at = len(block) * 150 + 60
    edited = text[:at] + "x" + text[at:]
    again = key_markers(
        edited, found, n_head=at, n_tail=len(text) - at, shift=1, n_most=2 * len(block)
    )
    assert again is not None
    assert [marker.span for marker in again] == list(key_blocks(edited))


def test_what_is_more_than_may_be_seen_is_not_found() -> None:
    assert markers_of(BEGIN + "\n" * 50_000, n_most=10_000) is None


def test_no_more_markers_are_looked_for_than_are_kept() -> None:
    found = markers_of(f"{BEGIN}\n" * (2 * MOST_MARKERS))
    assert found is not None
    assert len(found) == MOST_MARKERS + 1
