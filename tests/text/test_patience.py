"""After how many tokens a suggestion ends with its line, by how long the model takes for one."""

from __future__ import annotations

import math

import pytest

from speclsp.text.patience import n_before_line_end


@pytest.mark.parametrize(
    ("single_s", "n_tokens"),
    [
        (None, math.inf),
        (0.0, math.inf),
        (0.0005, 1344),  # the embedded model
        (0.005, 128),
        (0.010, 64),
        (0.012, 42),
        (0.033, 21),  # half a billion parameters on two cores
        (0.040, 16),
        (0.5, 16),
    ],
)
def test_it_is_what_the_model_decodes_in_the_time_that_people_wait(single_s, n_tokens):
    assert n_before_line_end(single_s) == n_tokens
