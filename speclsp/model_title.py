"""Models' names for messages."""

from __future__ import annotations

import re
from typing import Final

_SIZE: Final = r"\d+(?:\.\d+)?[BM](?:-A\d+(?:\.\d+)?B)?"
_QUANTIZATION: Final = r"(?:UD-)?I?Q\d\w*|BF16|F16|F32|MXFP4"


def model_title(file_name: str) -> str:
    """Return a model's name for messages from its file's name: ``Qwen2.5-Coder 7B Q4_K_M``."""
    stem = re.sub(r"(?i)(-\d{5}-of-\d{5})?\.gguf$", "", file_name.rsplit("/", 1)[-1])
    quantization = re.search(rf"[-._]({_QUANTIZATION})$", stem, re.IGNORECASE)
    if quantization is not None:
        stem = stem[: quantization.start()]
    size = re.search(rf"[-_.]({_SIZE})(?=[-_.]|$)", stem, re.IGNORECASE)
    if stem == stem.lower() and size is not None:
        stem = stem.title()
    if size is not None:
        rest = stem[size.end() :].strip("-_. ").replace("-", " ")
        stem = " ".join(filter(None, (stem[: size.start()], size[1].upper(), rest)))
    return f"{stem} {quantization[1].upper()}" if quantization else stem
