"""After how many tokens a suggestion that comes while somebody types ends with its line.

On a slow machine a text of many lines comes when its reader has typed on.  So it ends where a line
does, once so much was decoded as the machine decodes in the time that people wait; what follows is
made while the first lines are read.  llama.cpp's server has the same rule by the clock
(``t_max_predict_ms``), which llama.vim sets to 250.  Here it is a number of tokens by the speed
that was measured at load, so that a text does not depend on drafts, nor on what else the machine
does.
"""

from __future__ import annotations

import math
from typing import Final

from speclsp.prompt.jumps import step_below

WAIT_S: Final = 0.7
"""Seconds that decoding without drafts may take; with drafts it takes less."""
_LEAST: Final = 16
"""Tokens that are always waited for: a line or two."""


def n_before_line_end(single_s: float | None) -> float:
    """Return the tokens after which a text ends with its line.

    ``single_s`` is what a decode of one token takes; where nobody knows it, nor can tell it from 0,
    there is no such number.  Else it is one of 16, 21, 32, 42, 64, …, so that measuring noise
    seldom shows.
    """
    return step_below(WAIT_S / single_s, _LEAST) if single_s else math.inf
