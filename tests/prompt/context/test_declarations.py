# ruff: noqa: E501  # a row of a table is one file

import pytest

from speclsp.prompt.context.declarations import declaration_text, declarations


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("a.py", "LIMIT: int = 3\nclass Box:\n    def area(self): ...\nasync def f(): pass\nx == 1\n", "LIMIT Box area f"),
        ("a.ts", "export default async function load() {}\nexport const limit = 3;\ninterface Box {\n  area(): number;\n}\nclass A {\n  async run(x: number): Promise<void> {\n  }\n}\nif (x) {\n}\n", "load limit Box A run"),
        ("a.c", "#define LIMIT 3\nstruct box {\n  int w;\n};\nstatic int area(struct box *b)\n{\n  return f(b);\n}\ntypedef unsigned int size;\n", "LIMIT box area size"),
        ("a.h", "int area(const struct box *b);\nBox *make_box(int w,\n              int h);\n", "area make_box"),
        ("a.lua", "local M = {}\nfunction M.area(b)\nend\nM.volume = function(b)\nend\nlocal function helper() end\n", "M area volume helper"),
        ("a.go", "type Box struct {\n}\nfunc (b *Box) Area() int {\n}\nvar limit = 3\n", "Box Area limit"),
        ("a.rs", "pub struct Box_ {\n}\nimpl Box_ {\n    pub fn area(&self) -> u32 {\n    }\n}\n", "Box_ area"),
        ("a.java", "public final class Box {\n    public int area(int w) {\n    }\n}\n", "Box area"),
        ("a.txt", "class Box:\n", ""),
    ],
)  # fmt: skip
def test_what_a_file_declares(path: str, text: str, names: str) -> None:
    assert " ".join(d.name for d in declarations(text, path)) == names


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
        ("Box", 'class Box:\n    """A box."""\n    width: int\n    height: int = 0\n    def area(self) -> int:\n'),
        ("widen", 'def widen(\n    box: Box,\n    by: int,\n) -> Box:\n    """Make wider."""\n    box.width += by\n'),
        ("END", "END = 1\n"),
    ],
)  # fmt: skip
def test_the_text_of_a_declaration_is_its_head_and_what_it_holds(name: str, text: str) -> None:
    lines, found = BOX.split("\n"), declarations(BOX, "a.py")
    declared = next(d for d in found if d.name == name)
    assert declaration_text(lines, declared, found) == text
