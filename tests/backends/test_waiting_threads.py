"""OpenMP's threads spin briefly at barriers, unless the environment says how they wait."""

import os
import subprocess
import sys

import pytest

SHOW = "import os, speclsp.backends.llama; print(os.environ.get('GOMP_SPINCOUNT'))"


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "passive"}, "None")],
)
def test_threads_wait_as_the_environment_says(given, spins):
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**kept, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == spins
