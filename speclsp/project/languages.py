"""LSP's language ids of source files, by the ending of their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LANGUAGES: Final[Mapping[str, str]] = {
    ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".dart": "dart", ".ex": "elixir",
    ".go": "go", ".h": "c", ".hpp": "cpp", ".hs": "haskell", ".java": "java", ".js": "javascript",
    ".jsx": "javascriptreact", ".kt": "kotlin", ".lua": "lua", ".mjs": "javascript",
    ".php": "php", ".py": "python", ".rb": "ruby", ".rs": "rust",
    ".scala": "scala", ".sh": "shellscript", ".sql": "sql", ".swift": "swift",
    ".ts": "typescript", ".tsx": "typescriptreact", ".zig": "zig",
}  # fmt: skip
