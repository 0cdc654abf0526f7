from __future__ import annotations

import json
import math

import pytest

from speclsp.lsp.message_json import read_message


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc": "2.0", "id": 1, "params": {"text": "a\\n\\tb\\u00e9\\/"}}',
        '{"text": "größer 😀 \\ud83d\\ude00"}'.encode(),
        b'{"text": "\\ud800 and \\udc00\\ud800"}',
        b'{"a": 1, "a": 2}',
        b'{"whole": 1.0, "small": -0, "large": 123456789012345678901234567890}',
        b'{"beyond": 1e400}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
    ],
)
def test_a_message_is_what_the_standard_library_makes_of_it(body: bytes) -> None:
    message = read_message(body)
    assert message == json.loads(body)
    assert json.dumps(message) == json.dumps(json.loads(body))  # 1.0 is equal to 1


def test_what_is_no_number_is_read() -> None:
    assert math.isnan(read_message(b'{"a": NaN}')["a"])


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"a": 01}', b'{"a": 1} x', b'{"a": "\xff"}', b'{"a": "x\ny"}']
)
def test_what_is_no_json_is_refused_with_the_standard_library_s_words(body: bytes) -> None:
    reasons: list[str] = []
    for read in (read_message, json.loads):
        try:
            read(body)
        except ValueError as error:
            reasons.append(str(error))
    assert len(reasons) == 2
    assert reasons[0] == reasons[1]


def test_what_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(RecursionError):
        read_message(b"[" * 100_000)
