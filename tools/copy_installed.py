"""Copy a distribution of this interpreter into another environment's site-packages.

    PYTHON tools/copy_installed.py DISTRIBUTION SITE_PACKAGES

What took minutes to compile is checked as it is, and not compiled again.
"""

import shutil
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path


def main() -> int:
    """Copy the files that the distribution's record lists; return the exit code."""
    name, folder = sys.argv[1:]
    try:
        found = files(name) or []
    except PackageNotFoundError:
        found = []
    if not found:
        sys.stderr.write(f"{name} is not installed for {sys.executable}: run `make demo` first.\n")
        return 1
    for file in found:
        if ".." not in file.parts and Path(str(file.locate())).is_file():  # no commands, no caches
            copy = Path(folder, file)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), copy)
    return 0


sys.exit(main())
