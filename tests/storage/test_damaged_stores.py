"""A damaged store is set aside with one report, or read as far as it goes; nothing else happens.

``make damaged`` tries 2,000 damages of each store, the tests a sample.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

STEP = int(os.environ.get("SPECLSP_DAMAGED_STEP", "40"))
N_CASES = 2000 // STEP
SEED = os.environ.get("SPECLSP_DAMAGED_SEED", "1")
USER = Path(__file__).parents[1] / "support" / "use_damaged_stores.py"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["accepted", "tokens"])
def test_a_damaged_store_is_read_or_set_aside(tmp_path, kind):
    command = [sys.executable, str(USER), kind, str(tmp_path / "s"), str(N_CASES), SEED]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr[-4000:]
    counts = json.loads(result.stdout)
    print(kind, counts)  # noqa: T201 - figures
    assert sum(counts.values()) == N_CASES
    assert counts["set aside"]
    assert counts["read"]
