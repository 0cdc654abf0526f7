"""The llama-server that ``tools/peers/build_llama_server.sh`` built, or that is named."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built_llama_server() -> Path | None:
    """Return SPECLSP_LLAMA_SERVER's program, or that of the script's folder; None without one."""
    named = os.environ.get("SPECLSP_LLAMA_SERVER")
    folder = Path(os.environ.get("SPECLSP_PEERS", ROOT / ".peers"))
    path = Path(named) if named else folder / "build" / "bin" / "llama-server"
    return path if path.is_file() else None


WHY_NOT = (
    "no llama-server: tools/peers/build_llama_server.sh builds it, or SPECLSP_LLAMA_SERVER names it"
)
