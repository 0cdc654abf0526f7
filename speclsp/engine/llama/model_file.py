"""Looks at a model file before llama.cpp does, and says in plain words what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from speclsp.errors import ModelLoadError, ModelNotFoundError

_GGUF_MAGIC = b"GGUF"
_LFS_MAGIC = b"version https://git-lfs"
_OLD_MAGICS = (b"lmgg", b"tjgg", b"fmgg", b"algg")
_HEADER_LENGTH = 64


def check_model_file(path: Path) -> None:
    """Raise where ``path`` is certainly no GGUF model.

    Raises :class:`ModelNotFoundError` where there is no file, and :class:`ModelLoadError` for a
    folder, an unreadable file, a Git LFS pointer, another format, or an empty file.
    """
    if not path.exists():
        raise ModelNotFoundError(
            f"There is no model file at {path}.",
            remedy="Correct the path. For the embedded models leave `model` empty, and set "
            "`spec_draft_model` to `embedded`; left empty, there is no draft model.",
        )
    if path.is_dir():
        raise ModelLoadError(
            f"{path} is a folder, not a GGUF file.", remedy="Name the .gguf file inside it."
        )
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_LENGTH)
    except OSError as error:
        raise ModelLoadError(
            f"The model file {path} cannot be read: {error.strerror or error}.",
            remedy="Check the file's permissions.",
        ) from error
    if header.startswith(_LFS_MAGIC):
        raise ModelLoadError(
            f"{path} is a Git LFS pointer, not the model itself.",
            remedy="Fetch the file with `git lfs pull`.",
        )
    if header.startswith(_OLD_MAGICS):
        raise ModelLoadError(
            f"{path} is in llama.cpp's old GGML format.",
            remedy="Download or convert the model as GGUF.",
        )
    if not header.startswith(_GGUF_MAGIC):
        raise ModelLoadError(
            f"{path} is not a GGUF file." if header else f"{path} is empty.",
            remedy="Download a GGUF version of the model, or convert it with llama.cpp.",
        )


def load_error(path: Path, reasons: Sequence[str]) -> ModelLoadError:
    """Make an error of what llama.cpp logged while it refused ``path``."""
    text = " ".join(reasons)
    reason = _plain_reason(reasons)
    if "not within the file bounds" in text or "failed to read" in text or "unexpectedly" in text:
        return ModelLoadError(
            f"The model file {path} is damaged or incomplete: {reason}.",
            remedy="Download it again.",
        )
    if "unknown model architecture" in text or "unknown pre-tokenizer" in text:
        return ModelLoadError(
            f"llama.cpp does not know the model {path}: {reason}.",
            remedy="Upgrade llama-cpp-python, or take another model.",
        )
    if "does not support split buffers" in text:
        return ModelLoadError(
            f"llama.cpp cannot spread {path} by rows: {reason}.",
            remedy="Set split_mode to layer.",
        )
    return ModelLoadError(
        f"llama.cpp cannot load {path}: {reason}.",
        remedy="The log at debug level says more; try another file of the model.",
    )


def _plain_reason(reasons: Sequence[str]) -> str:
    """Pick llama.cpp's most telling line, without the function's name before it."""
    for line in reasons:
        _, found, reason = line.partition("error loading model: ")
        if found:
            return reason.rstrip(". ")
    if not reasons:
        return "it gives no reason"
    return reasons[0].split(": ", 1)[-1].rstrip(". ")
