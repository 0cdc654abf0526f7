"""What is believed of matches before and after they were tried."""

from __future__ import annotations

import math

from speclsp.drafting.acceptance import ONE_PLACE, PRIORS, AcceptanceTable, observe


def test_the_shortest_match_that_may_be_right_often_enough() -> None:
    table = AcceptanceTable()
    assert table.least_match("suffix", 0.5) == 0  # nothing is known of the drafter
    cell = table.match("suffix:buffer", 2, ONE_PLACE)
    table.match("other", 1, ONE_PLACE)
    assert table.least_match("suffix", 0.3) == 1
    assert table.least_match("suffix", PRIORS["buffer"][2]) == 4
    assert table.least_match("suffix", 0.99) == math.inf
    for _ in range(50):
        observe(cell, right=True)
    assert table.least_match("suffix", PRIORS["buffer"][2]) == 2
    assert table.least_match("other", PRIORS["project"][2]) == 4
