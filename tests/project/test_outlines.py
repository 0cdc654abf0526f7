"""The outlines of a folder's files, which the index makes while it reads them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from indexed_project import IndexUnderTest, write
from waiting import until

from speclsp.project import indexed_files
from speclsp.prompt.context.definitions import DefinitionTable
from speclsp.secrets.masked_text import PLACEHOLDER

MakeIndex = Callable[..., IndexUnderTest]


def outline_of(index: IndexUnderTest) -> DefinitionTable:
    until(lambda: index.index.outlines(current=True) is not None)
    found = index.index.outlines(current=True)
    assert found is not None
    return DefinitionTable(found.by_path)


def naming(outline: DefinitionTable, name: str) -> list[str]:
    """Return the files that define a name."""
    return outline.files_of(name)


@pytest.mark.parametrize("index_project", [True, False])
def test_what_a_folder_defines_without_ignored_and_secret_files(project, make_index, index_project):
    write(project / "a.py", 'password = "hunter22"\ndef area(): pass\n')
    write(project / "pkg" / "b.py", "class Box:\n    def area(self): pass\n")
    write(project / ".gitignore", "private.py\n")
    write(project / "private.py", "def area(): pass\n")
    write(project / "secrets.py", "def area(): pass\n")
    index = make_index(index_project=index_project).open()
    outline = outline_of(index)
    assert list(outline.files) == [".gitignore", "a.py", "pkg/b.py"]
    assert naming(outline, "area") == ["a.py", "pkg/b.py"]
    assert naming(outline, "Box") == ["pkg/b.py"]
    assert naming(outline, "hunter22") == []
    assert index.index.text("a.py") == f'password = "{PLACEHOLDER}"\ndef area(): pass\n'


def test_each_file_is_read_once_for_tokens_and_outline(project, make_index, monkeypatch):
    read: list[str] = []
    real = indexed_files.read_source

    def counting(path, *arguments):
        read.append(Path(path).name)
        return real(path, *arguments)

    monkeypatch.setattr(indexed_files, "read_source", counting)
    for name in ("a.py", "b.py"):
        write(project / name, f"def of_{name[0]}(): pass\n")
    index = make_index().open().built()
    index.index.reindex()
    outline_of(index.built())
    assert read == ["a.py", "b.py"]
    write(project / "b.py", "def other(): pass\n# longer\n")
    until(lambda: naming(outline_of(index), "other") == ["b.py"])
    assert read == ["a.py", "b.py", "b.py"]
    assert naming(outline_of(index), "of_b") == []
    (project / "b.py").unlink()
    until(lambda: list(outline_of(index).files) == ["a.py"])


def test_a_file_that_grew_too_large_has_no_outline(project, make_index, monkeypatch):
    """Its names were those of its former text."""
    monkeypatch.setattr(indexed_files, "_MAX_OUTLINED_BYTES", 100)
    write(project / "a.py", "def former(): pass\n")
    index = make_index().open().built()
    assert naming(outline_of(index), "former") == ["a.py"]
    write(project / "a.py", "def latter(): pass\n" * 10)
    until(lambda: list(outline_of(index).files) == [])


def test_outlines_are_there_before_all_files_are_tokenised(project, make_index):
    write(project / "a.py", "def area(): pass\n")
    index = make_index()
    index.tokenize.gate.clear()
    index.open()
    assert naming(outline_of(index), "area") == ["a.py"]
    assert index.index.stats().building
    assert index.index.stats().n_tokens == 0
    index.tokenize.gate.set()
