from pathlib import Path

import pytest
from indexed_project import write

from speclsp.project import outline as outline_module
from speclsp.project.outline import ProjectOutline
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings


def update(outline: ProjectOutline, settings: Settings | None = None) -> bool:
    return outline.update(settings or Settings(), lambda: None, lambda: False)


def test_what_a_folder_declares_without_ignored_and_secret_files(tmp_path: Path) -> None:
    write(tmp_path / "a.py", 'password = "hunter22"\ndef area(): pass\n')
    write(tmp_path / "pkg" / "b.py", "class Box:\n    def area(self): pass\n")
    write(tmp_path / ".gitignore", "private.py\n")
    write(tmp_path / "private.py", "def area(): pass\n")
    write(tmp_path / "secrets.py", "def area(): pass\n")
    outline = ProjectOutline(str(tmp_path))
    assert update(outline)
    assert list(outline.files) == [".gitignore", "a.py", "pkg/b.py"]
    assert outline.declaring("area") == ["a.py"]  # a method is reached through its class
    assert outline.declaring("Box") == ["pkg/b.py"]
    assert outline.text("a.py") == f'password = "{PLACEHOLDER}"\ndef area(): pass\n'
    assert outline.text("private.py") is None


def test_only_changed_files_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = outline_module.read_source

    def counting(path: str, *arguments):
        read.append(Path(path).name)
        return real(path, *arguments)

    monkeypatch.setattr(outline_module, "read_source", counting)
    for name in ("a.py", "b.py"):
        write(tmp_path / name, f"def of_{name[0]}(): pass\n")
    outline = ProjectOutline(str(tmp_path))
    update(outline)
    update(outline)
    assert read == ["a.py", "b.py"]
    write(tmp_path / "b.py", "def other(): pass\n# longer\n")
    update(outline)
    assert read == ["a.py", "b.py", "b.py"]
    assert outline.declaring("of_b") == ()
    assert outline.declaring("other") == ["b.py"]


def test_an_open_buffer_stands_for_its_file(tmp_path: Path) -> None:
    write(tmp_path / "a.py", "def on_disk(): pass\n")
    outline = ProjectOutline(str(tmp_path))
    update(outline)
    outline.set_open({"a.py": "def in_buffer(): pass\n", "new.py": "LIMIT = 3\n"})
    assert outline.declaring("on_disk") == ()
    assert outline.declaring("in_buffer") == ["a.py"]
    assert outline.declaring("LIMIT") == ["new.py"]
    assert outline.text("a.py") == "def in_buffer(): pass\n"
    outline.set_open({})
    assert outline.declaring("on_disk") == ["a.py"]
    assert list(outline.files) == ["a.py"]


def test_an_interrupted_update_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.py", "def area(): pass\n")
    outline = ProjectOutline(str(tmp_path))
    assert not outline.update(Settings(), lambda: None, lambda: True)
    assert not outline.is_read
    assert not outline.files
