"""Blocks between the markers of private keys are found, and nothing is seen too often."""

from speclsp.secrets.private_keys import key_blocks

BEGIN = "-----BEGIN RSA PRIVATE KEY-----"
END = "-----END RSA PRIVATE KEY-----"
BODY = "MIIBOgIBAAJBAKj34GkxFhD9"


def secrets(text: str) -> list[str]:
    return [text[span.start : span.end] for span in key_blocks(text)]


def test_each_block_ends_at_its_marker_or_at_the_next_beginning():
    other = "-----BEGIN CERTIFICATE-----"
    text = f"{BEGIN}\n{BODY}\n{END}\nx\n{BEGIN}\n{BODY}A\n{other}\n{BODY}\n{BEGIN}\n{BODY}B"
    assert secrets(text) == [f"\n{BODY}\n", f"\n{BODY}A", f"\n{BODY}B"]


def test_a_line_of_blanks_in_a_block_is_looked_at_once():
    blanks = " " * 100_000
    assert secrets(f"{BEGIN}\n{BODY}\n{blanks}!\n") == [f"\n{BODY}"]
    assert secrets(f"{BEGIN}\n{blanks}x!\n") == []
