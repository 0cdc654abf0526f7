"""The embedded target in Q8_0, made where a test needs it: the repository keeps F16 alone."""

import ctypes
from pathlib import Path

import llama_cpp


def write_q8_0(source: Path, path: Path) -> Path:
    """Write ``source``'s matrices as Q8_0 by llama.cpp's own quantiser, and return ``path``."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0
    params.nthread = 1
    status = llama_cpp.llama_model_quantize(
        str(source).encode(), str(path).encode(), ctypes.byref(params)
    )
    assert status == 0, f"llama.cpp did not quantise {source}: {status}"
    return path
