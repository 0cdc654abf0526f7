"""Make fixtures/cases anew: real edits between two released versions of open-source packages.

    .venv/bin/python tools/make_fixture_cases.py [FOLDER]

Wheels come by pip, packages of JavaScript by npm; they are unpacked and never run.  The same
versions give the same cases.  None of these packages was the embedded model trained on.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import EditCase, load_cases
from benchmarks.make_cases import make_cases, write_cases

N_CASES = 16
N_FILE_CHARS = 40_000
N_PROJECT_CHARS = 40_000
SEED = 0
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "cases"


@dataclass(frozen=True)
class Package:
    """Two releases of a package; ``folder`` is the part of it that cases are taken from."""

    name: str
    licence: str
    old: str
    new: str
    registry: str = "PyPI"
    folder: str = ""


PACKAGES = (
    Package("attrs", "MIT", "23.1.0", "25.4.0"),
    Package("cachetools", "MIT", "5.3.0", "7.0.0"),
    Package("h11", "MIT", "0.13.0", "0.16.0"),
    Package("httpcore", "BSD-3-Clause", "0.17.3", "1.0.9"),
    Package("httpx", "BSD-3-Clause", "0.24.1", "0.28.1"),
    Package("itsdangerous", "BSD-3-Clause", "2.0.1", "2.2.0"),
    Package("jinja2", "BSD-3-Clause", "3.0.3", "3.1.6"),
    Package("markupsafe", "BSD-3-Clause", "2.1.5", "3.0.3"),
    Package("marshmallow", "MIT", "3.19.0", "4.0.1"),
    Package("packaging", "Apache-2.0 or BSD-2-Clause", "23.2", "26.0"),
    Package("pluggy", "MIT", "1.0.0", "1.6.0"),
    Package("starlette", "BSD-3-Clause", "0.36.3", "0.52.1"),
    Package("structlog", "MIT or Apache-2.0", "23.1.0", "25.5.0"),
    Package("tenacity", "Apache-2.0", "8.2.0", "9.1.2"),
    Package("tomlkit", "MIT", "0.12.1", "0.14.0"),
    Package("bullmq", "MIT", "4.0.0", "5.40.0", "npm", "package/dist/esm/commands"),
    Package("immer", "MIT", "10.0.1", "11.0.0", "npm", "package/src"),
    Package("zod", "MIT", "4.0.0", "4.1.0", "npm", "package/src"),
)


def fetched(package: Package, version: str, folder: Path) -> Path:
    """Download a release and return the folder that it was unpacked to."""
    folder.mkdir(parents=True)
    unpacked = folder / "unpacked"
    if package.registry == "npm":
        run(["npm", "pack", "--silent", f"{package.name}@{version}"], folder)
        (archive,) = folder.glob("*.tgz")
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        return unpacked
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
    # One platform for all, so that everybody gets the same wheel where there are several.
    wheels = ["--only-binary=:all:", "--python-version=3.11", "--platform=manylinux2014_x86_64"]
    run([*pip, "--no-deps", *wheels, f"{package.name}=={version}"], folder)
    (archive,) = folder.glob("*.whl")
    with zipfile.ZipFile(archive) as zipped:
        zipped.extractall(unpacked)  # noqa: S202 - names that lead out of the folder are cut
    return unpacked


def run(command: list[str], folder: Path) -> None:
    """Run a command in a folder; raises CalledProcessError where it fails."""
    subprocess.run(command, cwd=folder, check=True, timeout=300)  # noqa: S603 - the table's names


def copy_licences(package: Package, unpacked: Path, target: Path) -> None:
    """Copy a release's licence files; raises ValueError where it has none."""
    target.mkdir(parents=True)
    top = unpacked / "package" if package.registry == "npm" else unpacked
    pattern = "LICEN[CS]E*" if package.registry == "npm" else "*.dist-info/**/LICEN[CS]E*"
    files = [path for path in sorted(top.glob(pattern)) if path.is_file()]
    if not files:
        raise ValueError(f"{package.name} {package.old} has no licence file")
    for file in files:
        shutil.copyfile(file, target / file.name)


def readme(cases: list[EditCase]) -> str:
    """Return the text that says what the fixtures are and where they are from."""
    numbers = Counter(case.project_name for case in cases)
    rows = [
        f"| {p.name} | {p.registry} | {p.old} | {p.new} | {p.licence} "
        f"| [licences/{p.name}](licences/{p.name}) | {numbers[p.name]} |"
        for p in PACKAGES
    ]
    return "\n".join(
        [
            "# Cases of real edits",
            "",
            "Test data for `python -m benchmarks typing` and `python -m benchmarks quality`: what",
            "the authors of these packages wrote between two of their releases.",
            "The folders hold files of the older release as they were published, and `cases.jsonl`",
            "says where text of the newer one went in;",
            "[benchmarks/cases.md](../../benchmarks/cases.md) describes the format.",
            "",
            "The files belong to their authors, and stand under the licences named here, which lie",
            "below `licences`; they are no part of speclsp's program and not in its wheel.",
            "The embedded model was trained on none of these packages.",
            "",
            "`python tools/make_fixture_cases.py` makes everything here anew.",
            "",
            "| package | from | older release | newer release | licence | licence files | cases |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main() -> int:
    """Make the fixtures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, nargs="?", default=FIXTURES)
    out: Path = parser.parse_args().folder
    if out.exists():
        shutil.rmtree(out)
    with tempfile.TemporaryDirectory() as name:
        for package in PACKAGES:
            downloads = Path(name) / package.name
            old = fetched(package, package.old, downloads / "old")
            new = fetched(package, package.new, downloads / "new")
            made = make_cases(
                old / package.folder,
                new / package.folder,
                name=package.name,
                n_cases=N_CASES,
                seed=SEED,
                n_file_chars=N_FILE_CHARS,
                n_project_chars=N_PROJECT_CHARS,
            )
            write_cases(made, out)
            copy_licences(package, old, out / "licences" / package.name)
            sys.stderr.write(f"{package.name}: {len(made.lines)} cases\n")
    cases = load_cases(out / "cases.jsonl")
    (out / "README.md").write_text(readme(cases), encoding="utf-8")
    sys.stderr.write(f"{len(cases)} cases\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
