"""How far the next draft of a key may go."""

from __future__ import annotations

from speclsp.drafting.draft_caps import MAX_CAPS, DraftCaps
from speclsp.drafting.draft_length import PROBE_EVERY


def test_a_wrong_draft_caps_the_next_one_of_its_key_alone():
    caps = DraftCaps(48)
    assert caps.length(b"a") == 48
    caps.learn(b"a", 48, 5)
    assert (caps.length(b"a"), caps.length(b"b")) == (5, 48)


def test_a_cap_doubles_when_a_draft_was_right_to_its_end():
    caps = DraftCaps(48)
    caps.learn(b"a", 48, 5)
    lengths = []
    for _ in range(6):
        length = caps.length(b"a")
        lengths.append(length)
        caps.learn(b"a", length, length)
    assert lengths == [5, 10, 20, 40, 48, 48]


def test_a_draft_that_was_cut_for_other_reasons_lowers_nothing():
    caps = DraftCaps(48)
    caps.learn(b"a", 2, 2)
    assert caps.length(b"a") == 48
    caps.learn(b"a", 40, 20)
    caps.learn(b"a", 3, 3)
    assert caps.length(b"a") == 20


def test_a_cap_of_zero_recovers():
    caps = DraftCaps(48)
    caps.learn(b"a", 48, 0)
    lengths = [caps.length(b"a") for _ in range(2 * PROBE_EVERY)]
    assert lengths == 2 * ([0] * (PROBE_EVERY - 1) + [1])
    caps.learn(b"a", 1, 0)
    assert caps.length(b"a") == 0
    caps.learn(b"a", 1, 1)
    assert caps.length(b"a") == 2


def test_the_oldest_keys_are_forgotten():
    caps = DraftCaps(48)
    keys = [idx.to_bytes(4, "big") for idx in range(MAX_CAPS + 1)]
    caps.learn(keys[0], 48, 7)
    for key in keys[1:-1]:
        caps.learn(key, 48, 0)
        caps.length(key)
    caps.learn(keys[0], 7, 6)
    caps.learn(keys[-1], 48, 0)
    assert caps.length(keys[0]) == 6
    assert caps.length(keys[1]) == 48
    assert caps.length(keys[2]) == 0
    assert len(caps._caps) == MAX_CAPS
    assert len(caps._n_declined) < MAX_CAPS
