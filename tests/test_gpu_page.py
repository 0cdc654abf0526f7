"""What docs/gpu.md names is there: settings, commands, and the lines that it tells to look for."""

import re
from pathlib import Path

from speclsp import settings
from speclsp.backends.llama import library
from speclsp.backends.llama.loading import mib_by_device
from speclsp.cli.doctor import GPU_PAGE
from speclsp.settings_resolution import canonical_name

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / GPU_PAGE).read_text(encoding="utf-8")


def test_the_readme_and_the_tools_lead_here():
    assert f"({GPU_PAGE})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert GPU_PAGE in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_its_table_names_settings():
    table = PAGE[PAGE.index("## Settings that matter") : PAGE.index("### A draft model")]
    rows = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {"n_gpu_layers", "device", "main_gpu", "tensor_split", "fit", "flash_attn"} <= named
    assert named <= set(settings.FIELDS)


def test_the_options_it_gives_exist():
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    for line in commands.splitlines():
        if "speclsp " in line and "CMAKE_ARGS" not in line:
            for option in re.findall(r"--([a-z][a-z0-9-]+)", line):
                known = canonical_name(option.replace("-", "_"))
                assert known in settings.FIELDS or f"`--{option}" in README, option


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_lines_to_look_for_are_the_ones_that_are_written(monkeypatch):
    monkeypatch.setattr(library, "gpu_backends", lambda: ())
    assert f"`{library.why_no_gpu()}`" in PAGE
    monkeypatch.setattr(library, "gpu_backends", lambda: ("CUDA",))
    monkeypatch.setattr(library, "start_backends", lambda: ())
    assert library.why_no_gpu() in PAGE
    # llama.cpp's own line is one that is read.
    assert mib_by_device(PAGE.splitlines(), ())
