"""Source files of a corpus as tests need them."""

import hashlib

from training.corpus import SourceFile


def source_file(
    path: str, text: str, *, package: str = "", version: str = "1.0", language: str = "python"
) -> SourceFile:
    """A file under MIT by its package's metadata; its folder names the package."""
    return SourceFile(
        package=package or path.split("/", maxsplit=1)[0],
        version=version,
        licence="MIT",
        judged="metadata",
        language=language,
        path=path,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        text=text,
    )
