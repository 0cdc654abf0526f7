"""The bodies of functions that can be typed again."""

import pytest

from benchmarks.function_finding import LANGUAGE_IDS, function_bodies


def bodies(language_id: str, text: str) -> list[str]:
    return [text[one.start : one.end] for one in function_bodies(language_id, text)]


@pytest.mark.parametrize(
    ("language_id", "text", "expected"),
    [
        ("python", "def f(a):\n    return a\n\n\nx = 1\n", ["\n    return a"]),
        ("python", 'def f(a):\n    """Say."""\n    return a\n', ["\n    return a"]),
        ("python", "def f(\n    a,\n) -> int:\n    # Why.\n    return a\n",
         ["\n    # Why.\n    return a"]),
        ("python", "class A:\n    def f(self):\n        def g():\n            pass\n        g()\n",
         ["\n        def g():\n            pass\n        g()"]),
        ("python", "def f(:\n", []),
        ("go", "func f(a int) int {\n\tif a > 0 {\n\t\treturn 1\n\t}\n\treturn a\n}\n",
         ["\n\tif a > 0 {\n\t\treturn 1\n\t}\n\treturn a"]),
        ("go", "type t struct {\n\ta int\n}\n", []),
        ("rust", "impl A {\n    pub fn f(&self) -> u8 {\n        1\n    }\n}\n", ["\n        1"]),
        ("rust", "fn f(\n    a: u8,\n) -> u8 {\n    a\n}\n", ["\n    a"]),
        ("typescript", "export function f(a: string): string {\n    return a;\n}\n",
         ["\n    return a;"]),
        ("typescript", "class A {\n    async f(a: A): Promise<A> {\n        return a;\n    }\n}\n",
         ["\n        return a;"]),
        ("typescript", "    if (a) {\n        b();\n    }\n", []),
        ("c", "static int f(int a) {\n    return a;\n}\n", ["\n    return a;"]),
        ("c", "struct s {\n    int a;\n};\n", []),
        ("cpp", "    bool f(const A& a) const {\n        return a;\n    }\n",
         ["\n        return a;"]),
        ("cpp", "    for (auto& a : b) {\n        c(a);\n    }\n", []),
        ("cobol", "f.\n", []),
    ],
)  # fmt: skip
def test_bodies(language_id, text, expected):
    assert bodies(language_id, text) == expected


def test_every_language_is_tried():
    assert {"python", "go", "rust", "typescript", "c", "cpp"} == LANGUAGE_IDS
