# ruff: noqa: E501  # a row of a table is one file

import pytest

from speclsp.prompt.context.outline import declaration_text, declarations


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("a.py", "LIMIT: int = 3\nclass Box:\n    def area(self): ...\nasync def f(): pass\nx == 1\n", "LIMIT Box f"),
        ("a.ts", "export default async function load() {}\nexport const limit = 3;\ninterface Box {\n  area(): number;\n}\nclass A {\n  async run(x: number): Promise<void> {\n  }\n}\nif (x) {\n}\n", "load limit Box A"),
        ("a.c", "#define LIMIT 3\nstruct box {\n  int w;\n};\nstatic int area(struct box *b)\n{\n  return f(b);\n}\ntypedef unsigned int size;\n", "LIMIT box area size"),
        ("a.h", "int area(const struct box *b);\nBox *make_box(int w,\n              int h);\n", "area make_box"),
        ("a.lua", "local M = {}\nfunction M.area(b)\nend\nM.volume = function(b)\nend\nlocal function helper() end\n", "M area volume helper"),
        ("a.go", "type Box struct {\n}\nfunc (b *Box) Area() int {\n}\nvar limit = 3\n", "Box Area limit"),
        ("a.rs", "pub struct Box_ {\n}\nimpl Box_ {\n    pub fn area(&self) -> u32 {\n    }\n}\n", "Box_"),
        ("a.java", "public final class Box {\n    public int area(int w) {\n    }\n}\n", "Box"),
        ("a.txt", "class Box:\n", ""),
    ],
)  # fmt: skip
def test_what_a_file_declares(path: str, text: str, names: str) -> None:
    assert " ".join(declarations(text, path)) == names


BOX = '''
@dataclass
class Box:
    """A box."""

    width: int
    height: int = 0

    @property
    def area(self) -> int:
        """Its area."""
        return self.width * self.height


def widen(
    box: Box,
    by: int,
) -> Box:
    """Make wider."""
    box.width += by
    return box


END = 1
'''


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Box", BOX[BOX.index("class Box") : BOX.index("\n\n\ndef widen")] + "\n"),
        ("widen", BOX[BOX.index("def widen") : BOX.index("\n\n\nEND")] + "\n"),
        ("END", "END = 1\n"),
    ],
)
def test_the_text_of_a_declaration_ends_with_its_body(name: str, text: str) -> None:
    assert declaration_text(BOX.split("\n"), declarations(BOX, "a.py")[name]) == text


def test_of_a_long_declaration_twelve_lines_are_shown() -> None:
    lines = ["class Box:", *(f"    side_{n}: int" for n in range(30))]
    assert declaration_text(lines, 0).split("\n") == [*lines[:12], ""]
