"""The llama-server that the tests ask: named, built by the script of the peers, or installed."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built_llama_server() -> Path | None:
    """Return the llama-server to test with; None without one.

    It is SPECLSP_LLAMA_SERVER's, else that of ``tools/peers/build_llama_server.sh``, which
    SPECLSP_PEERS may move elsewhere, so that a build is kept between checkouts, else PATH's.
    """
    if named := os.environ.get("SPECLSP_LLAMA_SERVER"):
        found = [named]
    else:
        folder = Path(os.environ.get("SPECLSP_PEERS", ROOT / ".peers"))
        found = [folder / "build" / "bin" / "llama-server", shutil.which("llama-server") or ""]
    return next((Path(path) for path in found if Path(path).is_file()), None)


WHY_NOT = (
    "no llama-server: tools/peers/build_llama_server.sh builds it, SPECLSP_LLAMA_SERVER names it, "
    "or PATH has one"
)
