"""Which lines define a name, what is shown of a definition, and for which names."""

import pytest

from speclsp.prompt.context.candidates import definition_candidates
from speclsp.prompt.context.definitions import (
    DefinitionTable,
    definitions_in,
    outline_of,
    shown_definition,
)
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.request import PlacedRequest

PYTHON = '''\
LIMIT: int = 3


class Shelf(Base):
    """Holds books."""

    width: int
    books: list[Book]

    def put(
        self, book: Book
    ) -> None:
        """Put one."""
        self.books.append(book)
'''
C = """\
// Opens a file.
// It must be closed.
static shelf_t *shelf_open(const char *path) {
    return NULL;
}

typedef struct {
    int width;
    char *name;
} shelf_t;
"""
GO = """\
// A Shelf holds books.
type Shelf struct {
	width int
	lock  sync.Mutex
}

func (s *Shelf) Put(book Book) error {
	return nil
}
"""

JAVA = """\
public class Shelf {
    private static final int LIMIT = 3;
    public void put(Book book) {
        shelf.put(book);
        new Shelf(1) {
"""
CSHARP = """\
internal sealed record Shelf
    public async Task<Book> TakeAsync(int n) {
        return await TakeAsync(n) {
"""


def shown(path: str, text: str, name: str) -> str:
    lines = text.split("\n")
    found = next(one for one in definitions_in(path, lines) if one.name == name)
    return "\n".join(shown_definition(path, lines, found))


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("a.py", PYTHON, ["LIMIT", "Shelf", "put"]),
        ("a.c", C, ["shelf_open", "shelf_t"]),
        ("a.go", GO, ["Shelf", "Put"]),
        ("a.rs", "pub(crate) async fn put(a: u8) {}\nconst LIMIT: u8 = 1;\n", ["put", "LIMIT"]),
        ("a.ts", "export const shelf = 1;\nclass A {\n    put(): void {\n", ["shelf", "put"]),
        ("A.java", JAVA, ["Shelf", "LIMIT", "put"]),
        ("A.cs", CSHARP, ["Shelf", "TakeAsync"]),
        (
            "a.kt",
            "data class Shelf(val width: Int)\n    fun Shelf.put(a: Book) {\n",
            ["Shelf", "put"],
        ),
        ("a.swift", "public struct Shelf {\n    func put(_ a: Book) {\n", ["Shelf", "put"]),
        ("a.php", "final class Shelf\n    public static function put($a) {\n", ["Shelf", "put"]),
        ("a.rb", "class Shop::Shelf\n  LIMIT = 3\n  def self.put(a)\n", ["Shelf", "LIMIT", "put"]),
        ("a.lua", "local shelf = {}\nfunction shelf.put(a)\n", ["shelf", "put"]),
        ("a.txt", PYTHON, []),
    ],
)
def test_names_that_a_file_defines(path, text, names):
    assert [one.name for one in definitions_in(path, text.split("\n"))] == names


def test_calls_define_nothing():
    lines = ["    return shelf_open(path);", "    else if (is_open(path)) {", "\tfor (put(a)) {"]
    assert not [*definitions_in("a.c", lines)]


@pytest.mark.parametrize("above", [[], ["typedef int number_t;"], ["typedef struct {", "} t;"]])
def test_a_variable_of_a_type_without_a_name_is_no_type(above):
    lines = [*above, "static struct {", "    int a;", "} cache_state;"]
    assert "cache_state" not in [one.name for one in definitions_in("a.c", lines)]


def test_a_type_is_shown_with_its_fields():
    assert shown("a.py", PYTHON, "Shelf") == (
        'class Shelf(Base):\n    """Holds books."""\n    width: int\n    books: list[Book]\n'
        "    def put("
    )
    assert shown("a.go", GO, "Shelf") == GO.partition("\n\n")[0]
    assert shown("a.c", C, "shelf_t") == C.partition("\n\n")[2].rstrip()


def test_a_function_is_shown_without_its_body():
    assert shown("a.py", PYTHON, "put") == (
        '    def put(\n        self, book: Book\n    ) -> None:\n        """Put one."""'
    )
    assert shown("a.c", C, "shelf_open") == (
        "// Opens a file.\nstatic shelf_t *shelf_open(const char *path)"
    )


def chosen(before: str, texts: dict[str, str], path: str = "main.py") -> list[tuple[str, str]]:
    request = PlacedRequest(
        plain=CompletionRequest(uri=path, version=1, offset=len(before)),
        text=before, cursor=len(before), path=path, repo_name="", language_id="", file=path,
    )  # fmt: skip
    files = {**texts, path: before}
    table = DefinitionTable({name: outline_of(name, text) for name, text in files.items()})
    found = definition_candidates(request, table, texts.get, before)
    return [(one.path, one.detail.removeprefix("defines ")) for one in found]


def test_names_near_the_cursor_are_looked_up_in_files_of_their_language():
    texts = {"shelf.py": PYTHON, "shelf.go": GO}
    assert chosen("def f(shelf: Shelf):\n    ", texts) == [("shelf.py", "Shelf")]


def test_what_the_document_shows_is_not_shown_again():
    assert not chosen("class Shelf:\n    width = 1\n\n\nShelf(", {"shelf.py": PYTHON})


def test_imports_decide_among_several_definitions():
    texts = {f"{name}.py": PYTHON for name in ("a", "b", "c", "shelf")}
    assert not chosen("Shelf(", texts)
    assert chosen("from shelf import Shelf\n\nShelf(", texts) == [("shelf.py", "Shelf")]
