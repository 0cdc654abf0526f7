"""Why a side did not run, in words that may be published."""

from __future__ import annotations

import re
from typing import Final

from speclsp.errors import SpecLspError

_FOLDERS: Final = re.compile(r"(?<![\w/:.])/(?:[^\s/:'\"]+/)+(?=[^\s/:'\"])")


def reason(error: SpecLspError) -> str:
    """Return an error's first line and its remedy, as a record has it."""
    first = error.message.partition("\n")[0]
    return without_folders(f"{first} {error.remedy}".strip())


def without_folders(text: str) -> str:
    """Return ``text`` with the names of files alone, without where they lie."""
    return _FOLDERS.sub("", text)
