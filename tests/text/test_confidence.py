import math

import pytest

from speclsp.text.confidence import text_scores

# (pieces with their log-probabilities, typed, text, the log-probabilities that count, tokens used)
CASES = {
    "all of it": (("a", -1.0), ("b", -2.0), "", "ab", [-1.0, -2.0], 2),
    "end token": (("a", -1.0), ("", -2.0), "", "a", [-1.0], 1),
    "cut by a rule": (("a\n", -1.0), ("bad", -9.0), "", "a", [-1.0], 1),
    "cut inside a token": (("a", -1.0), ("b)", -2.0), "", "ab", [-1.0, -2.0], 2),
    "white space inside": (("a", -1.0), ("\n  ", -3.0), ("b", -2.0), "", "a\r\n\tb", None, 3),
    "white space behind": (("a", -1.0), ("  \n", -9.0), "", "a", [-1.0], 1),
    "typed already": (("re", -5.0), ("turn x", -1.0), "re", "turn x", [-1.0], 2),
    "typed in part": (("return", -1.0), (" x", -2.0), "ret", "urn x", [-1.0, -2.0], 2),
    "typed white space": (("    return", -1.0), (" x", -3.0), "  ", "  return x", None, 2),
    "several bytes": (("é".encode()[:1], -1.0), ("é".encode()[1:], -2.0), "", "é", None, 2),
    "nothing": (("", -1.0), "", "", [], 0),
}


@pytest.mark.parametrize("name", CASES)
def test_tokens_of_the_text_count(name):
    *tokens, typed, text, counting, n_used = CASES[name]
    pieces = [p if isinstance(p, bytes) else p.encode() for p, _ in tokens]
    logprobs = [logprob for _, logprob in tokens]
    scores = text_scores(pieces, logprobs, text, typed=typed)
    expected = logprobs if counting is None else counting
    assert list(scores.logprobs) == expected
    assert scores.end == n_used
    assert scores.mean(text) == (sum(expected) / len(expected) if expected else None)


def test_no_mean_of_broken_logits():
    scores = text_scores([b"a"], [math.nan], "a")
    assert scores.mean("a") is None
