"""Make fixtures/points anew: functions of open-source projects that are newer than the models.

    .venv/bin/python tools/make_fixture_points.py [FOLDER] [--repositories FOLDER]

The commits named here are taken from bare repositories below --repositories, such as
``FOLDER/edit``, or else cloned from GitHub.  Nothing of them is run.  Every file that functions are
taken from came into its project in 2025 or later: Qwen2.5-Coder is from autumn 2024.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import msgspec

from benchmarks.cases import CaseLine, EditCase, load_cases
from benchmarks.function_finding import Body, function_bodies
from benchmarks.typing_session import keys
from speclsp.text.languages import LANGUAGES

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "points"
SINCE = "2025"
N_FUNCTIONS = 24
N_LEAST_CHARS, N_MOST_CHARS = 160, 1600
N_LEAST_LINES = 4
N_PROJECT_CHARS = 290_000
SEED = 0


@dataclass(frozen=True)
class Project:
    """A project's files at a commit; functions are taken from those that ``typed`` names."""

    name: str
    repository: str
    commit: str
    date: str
    licence: str
    typed: tuple[str, ...]
    beside: tuple[str, ...]
    """Patterns of files that come along, the small ones first."""
    headers: str = ""
    """The language of files whose names end in ``.h``, if they are typed."""


PROJECTS = (
    Project(
        "agents", "openai/openai-agents-python", "7f7a44f8dc0650296bd5ab6c745c9bcbaa6ac3b7",
        "2026-08-22", "MIT",
        tuple(f"src/agents/{name}.py" for name in (
            "_tool_identity", "_tool_invocation", "agent_output", "agent_tool_input",
            "agent_tool_state", "apply_diff", "function_schema", "retry", "run_config",
            "strict_schema", "tool_context", "usage",
        )),
        ("src/agents/*.py",),
    ),
    Project(
        "mcp-typescript", "modelcontextprotocol/typescript-sdk",
        "3924de99df834302d89f5997a1b64ca268282284", "2026-08-18", "Apache-2.0 and MIT",
        (
            "packages/client/src/client/authExtensions.ts",
            "packages/client/src/client/middleware.ts",
            "packages/client/src/client/probeClassifier.ts",
            "packages/client/src/client/responseCache.ts",
            "packages/client/src/client/versionNegotiation.ts",
            "packages/core-internal/src/shared/inputRequiredDriver.ts",
            "packages/core-internal/src/shared/mcpParamHeaders.ts",
            "packages/core-internal/src/util/standardSchema.ts",
            "packages/server/src/server/legacyInputRequiredShim.ts",
            "packages/server/src/server/listenRouter.ts",
            "packages/server/src/server/perRequestTransport.ts",
            "packages/server/src/server/requestStateCodec.ts",
        ),
        ("packages/client/src/client/*.ts", "packages/server/src/server/*.ts",
         "packages/core-internal/src/shared/*.ts", "packages/core-internal/src/util/*.ts"),
    ),
    Project(
        "mcp-go", "modelcontextprotocol/go-sdk", "3d6450fccf564e7c92a54d4274c35635a8c39821",
        "2026-08-21", "Apache-2.0 and MIT",
        tuple(f"mcp/{name}.go" for name in (
            "client", "cmd", "content", "event", "logging", "mrtr", "resource", "shared", "sse",
            "streamable_client", "streamable_headers", "tool", "transport",
        )),
        ("mcp/*.go", "internal/jsonrpc2/*.go", "internal/util/*.go"),
    ),
    Project(
        "edit", "microsoft/edit", "9b34f1876966d834453cba39968f97137d0471b4", "2026-08-07", "MIT",
        (
            "crates/edit/src/bin/edit/documents.rs",
            "crates/edit/src/bin/edit/draw_filepicker.rs",
            "crates/edit/src/buffer/gap_buffer.rs",
            "crates/edit/src/buffer/navigation.rs",
            "crates/edit/src/framebuffer.rs",
            "crates/edit/src/fuzzy.rs",
            "crates/edit/src/input.rs",
            "crates/edit/src/json.rs",
            "crates/edit/src/vt.rs",
            "crates/lsh/src/compiler/charset.rs",
            "crates/lsh/src/compiler/frontend.rs",
            "crates/lsh/src/compiler/optimizer.rs",
            "crates/stdext/src/glob.rs",
        ),
        ("crates/edit/src/*.rs", "crates/stdext/src/*.rs", "crates/lsh/src/*.rs"),
    ),
    Project(
        "stable-diffusion", "leejet/stable-diffusion.cpp",
        "97d2990807fe6d558e395f8764198d7c7e7b411c", "2026-08-19", "MIT",
        (
            "src/core/backend_fit.cpp",
            "src/core/ggml_graph_cut.cpp",
            "src/core/layer_split_partition.cpp",
            "src/detailer.cpp",
            "src/model/detector/yolov8.h",
            "src/model_manager.cpp",
            "src/runtime/cache_dit.hpp",
            "src/runtime/easycache.hpp",
            "src/runtime/guidance.cpp",
            "src/runtime/sample-cache.cpp",
            "src/runtime/ucache.hpp",
            "src/tokenizers/gemma_tokenizer.cpp",
        ),
        ("src/*.h", "src/core/*", "src/runtime/*", "src/tokenizers/*.cpp", "src/model/common/*"),
        headers="cpp",
    ),
    Project(
        "flux2", "antirez/flux2.c", "b9cbbea3577acebdb0825c9f5c24cbb656834c8a", "2026-02-07",
        "MIT",
        tuple(f"{name}.c" for name in (
            "embcache", "flux", "flux_cli", "flux_image", "flux_kernels", "flux_qwen3_tokenizer",
            "flux_safetensors", "flux_sample", "flux_tokenizer", "main", "terminals",
        )),
        ("flux*.h", "embcache.h", "terminals.h"),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Repository:
    """A bare repository at a commit."""

    git_dir: Path
    commit: str

    def git(self, *arguments: str) -> bytes:
        """Return what git says; raises CalledProcessError where it fails."""
        command = ["git", f"--git-dir={self.git_dir}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, timeout=600).stdout  # noqa: S603

    def sizes(self) -> dict[str, int]:
        """Return the files at the commit, with their sizes in bytes."""
        found: dict[str, int] = {}
        for line in self.git("ls-tree", "-rlz", self.commit).decode().split("\0"):
            meta, _, path = line.partition("\t")
            _, _, _, size = meta.split() if meta else ("",) * 4
            if size.isdecimal():  # submodules have none, nor what a partial clone lacks
                found[path] = int(size)
        return found

    def text(self, path: str) -> str:
        """Return a file; raises UnicodeDecodeError where it is no text."""
        return self.git("show", f"{self.commit}:{path}").decode("utf-8")

    def first_year(self, path: str) -> str:
        """Return the year in which a file of this name came into the project, in any folder."""
        pattern = f":(glob)**/{Path(path).name}"
        said = self.git(
            "log", "--no-renames", "--diff-filter=A", "--format=%ad", "--date=format:%Y",
            self.commit, "--", pattern,
        )  # fmt: skip
        return min(said.decode().split())


def opened(project: Project, repositories: Path | None, scratch: Path) -> Repository:
    """Return a project's repository; without ``repositories`` it is cloned into ``scratch``."""
    if repositories is not None:
        return Repository(repositories / project.name, project.commit)
    target = scratch / project.name
    address = f"https://github.com/{project.repository}"
    command = ["git", "clone", "--quiet", "--bare", address, str(target)]
    subprocess.run(command, check=True, timeout=3600)  # noqa: S603
    return Repository(target, project.commit)


def chosen_files(project: Project, repository: Repository) -> dict[str, str]:
    """Return the typed files and those beside them, by path, up to ``N_PROJECT_CHARS``."""
    sizes = repository.sizes()
    for path in project.typed:
        year = repository.first_year(path)
        if year < SINCE:
            raise ValueError(f"{project.name}: {path} is from {year}")
    beside = sorted(
        (size, path) for path, size in sizes.items()
        if path not in project.typed and any(fnmatch(path, one) for one in project.beside)
        and Path(path).suffix.lower() in LANGUAGES and "test" not in Path(path).name.lower()
    )  # fmt: skip
    files = {path: repository.text(path) for path in project.typed}
    n_chars = sum(map(len, files.values()))
    for size, path in beside:
        if n_chars + size > N_PROJECT_CHARS:
            break
        files[path] = repository.text(path)
        n_chars += len(files[path])
    return files


def is_worth_typing(text: str, body: Body) -> bool:
    """Whether a body has neither too little nor too much to type, and is code for the most part."""
    typed = text[body.start : body.end]
    lines = [line.strip() for line in typed.splitlines() if line.strip()]
    n_prose = sum(line.startswith(("#", "//", "/*", "*")) for line in lines)
    return (
        N_LEAST_CHARS <= len(typed) <= N_MOST_CHARS
        and len(lines) >= N_LEAST_LINES
        and 3 * n_prose <= len(lines)
        and len(keys(typed)) > 1
        and typed[0] in "\r\n"
        and text[body.end : body.end + 1] in ("\n", "\r", "")
    )


def drawn_functions(project: Project, files: dict[str, str]) -> list[CaseLine]:
    """Draw functions evenly over the typed files, in the order of paths and places."""
    generator = random.Random(f"{project.name} {SEED}")  # noqa: S311 - no secret
    waiting: dict[str, list[Body]] = {}
    for path in project.typed:
        suffix = Path(path).suffix
        language_id = project.headers if suffix == ".h" else LANGUAGES[suffix]
        bodies = function_bodies(language_id, files[path])
        waiting[path] = [body for body in bodies if is_worth_typing(files[path], body)]
        generator.shuffle(waiting[path])
    drawn: list[tuple[str, Body]] = []
    while len(drawn) < N_FUNCTIONS and any(waiting.values()):
        for path in project.typed:
            if waiting[path] and len(drawn) < N_FUNCTIONS:
                drawn.append((path, waiting[path].pop()))
    drawn.sort(key=lambda one: (one[0], one[1].start))
    return [
        CaseLine(
            id=f"{project.name}-{number:02d}",
            project=project.name,
            path=path,
            language_id=project.headers if path.endswith(".h") else LANGUAGES[Path(path).suffix],
            kind="function",
            start=body.start,
            end=body.end,
            typed=files[path][body.start : body.end],
        )
        for number, (path, body) in enumerate(drawn, 1)
    ]


def write_project(
    project: Project, repository: Repository, out: Path, lines: list[CaseLine]
) -> None:
    """Write a project's files and licence, and add its functions to ``lines``."""
    files = chosen_files(project, repository)
    found = drawn_functions(project, files)
    lines += found
    for path, text in files.items():
        target = out / project.name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode("utf-8"))
    licence = out / "licences" / project.name / "LICENSE"
    licence.parent.mkdir(parents=True)
    licence.write_bytes(repository.git("show", f"{project.commit}:LICENSE"))
    n_chars = sum(map(len, files.values()))
    sys.stderr.write(f"{project.name}: {len(found)} functions, {n_chars} characters\n")


def readme(cases: list[EditCase]) -> str:
    """Return the text that says what the fixtures are and where they are from."""
    rows: list[str] = []
    for project in PROJECTS:
        own = [case for case in cases if case.project_name == project.name]
        rows.append(
            f"| {project.name} | [{project.repository}](https://github.com/{project.repository}) "
            f"| {project.commit} | {project.date} | {project.licence} "
            f"| [licences/{project.name}](licences/{project.name}) "
            f"| {', '.join(sorted({case.language_id for case in own}))} | {len(own)} |"
        )
    return "\n".join(
        [
            "# Functions that are newer than the models",
            "",
            "Test data for `python -m benchmarks points`: functions that are typed again.",
            "The folders hold unchanged files of the projects at the commits named here, and",
            "`points.jsonl` says where the functions' bodies are, in the format of",
            "[benchmarks/cases.md](../../benchmarks/cases.md); the benchmark takes a body out",
            "before it types it.",
            "The files with these functions came into their projects in 2025 or later.",
            "",
            "The files belong to their authors, and stand under the licences named here, which lie",
            "below `licences`; they are no part of speclsp's program and not in its wheel.",
            "",
            "`python tools/make_fixture_points.py` makes everything here anew.",
            "",
            "| folder | project | commit | of | licence | licence file | language | functions |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main() -> int:
    """Make the fixtures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, nargs="?", default=FIXTURES)
    parser.add_argument("--repositories", type=Path, help="folder of bare repositories")
    given = parser.parse_args()
    out: Path = given.folder
    if out.exists():
        shutil.rmtree(out)
    lines: list[CaseLine] = []
    with tempfile.TemporaryDirectory() as scratch:
        for project in PROJECTS:
            repository = opened(project, given.repositories, Path(scratch))
            write_project(project, repository, out, lines)
    target = out / "points.jsonl"
    target.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    cases = load_cases(target)
    (out / "README.md").write_text(readme(cases), encoding="utf-8")
    sys.stderr.write(f"{len(cases)} functions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
