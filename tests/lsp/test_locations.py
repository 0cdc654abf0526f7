import sys

import pytest

from speclsp.lsp.locations import cell_path, document_key, folder_at, locate, uri_parts

PROJECT = "file:///home/user/project"


@pytest.mark.parametrize(
    ("folder", "uri", "repo_name", "path"),
    [
        (PROJECT, f"{PROJECT}/a.py", "project", "a.py"),
        (PROJECT, f"{PROJECT}/pkg/deep/a.py", "project", "pkg/deep/a.py"),
        (f"{PROJECT}/", f"{PROJECT}/a.py", "project", "a.py"),
        (PROJECT, f"{PROJECT}/with%20space/%C3%A9.py", "project", "with space/é.py"),
        (
            "file:///home/user/my%20project",
            "file:///home/user/my project/a.py",
            "my project",
            "a.py",
        ),
        # Another folder whose name only begins alike.
        (PROJECT, "file:///home/user/project2/a.py", "project2", "a.py"),
        # Outside of every folder.
        (PROJECT, "file:///usr/lib/python3/os.py", "python3", "os.py"),
        (PROJECT, "file:///a.py", "untitled", "a.py"),
        ("file:///", "file:///etc/a.conf", "untitled", "etc/a.conf"),
        # Drive letters, in the spellings of VS Code, Neovim and others.
        ("file:///c%3A/Users/Me/Proj", "file:///c%3A/Users/Me/Proj/src/A.cs", "Proj", "src/A.cs"),
        ("file:///C:/Users/Me/Proj", "file:///c%3a/users/me/proj/src/A.cs", "Proj", "src/A.cs"),
        ("file:///c:/Users/Me/Proj", "file:///C:/Users/Me/Proj/A.cs", "Proj", "A.cs"),
        ("file:///c:/Users/Me/Proj", "file:///d:/Users/Me/Proj/A.cs", "Proj", "A.cs"),
        ("file:///c:/", "file:///C%3A/x.py", "c:", "x.py"),
        # A share.
        ("file://Server/share/Proj", "file://server/share/proj/x/a.py", "Proj", "x/a.py"),
        # Case counts on other systems.
        (PROJECT, "file:///home/user/Project/a.py", "Project", "a.py"),
        # Not on disk, yet in a folder.
        ("vscode-vfs://github/o/r", "vscode-vfs://github/o/r/src/a.rs", "r", "src/a.rs"),
        (PROJECT, "vscode-vfs://github/home/user/project/a.rs", "project", "a.rs"),
        (PROJECT, "untitled:Untitled-1", "project", "Untitled-1.py"),
        (PROJECT, "untitled:/home/user/project/x/new.py", "project", "x/new.py"),
        (PROJECT, "", "project", "untitled.py"),
    ],
)
def test_where_a_document_stands(folder, uri, repo_name, path):
    location = locate(uri, "python", [folder_at(folder)])
    assert (location.repo_name, location.path) == (repo_name, path)


def test_deepest_folder_holds_a_document():
    folders = [folder_at(u) for u in (f"{PROJECT}/sub", PROJECT, f"{PROJECT}/sub/sub2")]
    location = locate(f"{PROJECT}/sub/x/a.py", "python", folders)
    assert (location.repo_name, location.path) == ("sub", "x/a.py")


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/a%20b", "/home/a b"),
        ("file://localhost/home/a", "/home/a"),
        ("file:///C%3A/a", "c:/a"),
        ("file://server/share", "//server/share"),
        ("untitled:x", ""),
        ("http://[", ""),
    ],
)
def test_path_in_the_file_system(uri, path):
    assert uri_parts(uri).file_path == path


@pytest.mark.skipif(sys.platform == "win32", reason="drives and hosts are local there")
@pytest.mark.parametrize(
    ("uri", "file"),
    [
        (f"{PROJECT}/pkg/a%20b.py", "/home/user/project/pkg/a b.py"),
        ("file:///elsewhere/%C3%A9.py", "/elsewhere/é.py"),
        ("file://localhost/home/a.py", "/home/a.py"),
        ("untitled:Untitled-1", ""),
        ("untitled:/home/user/project/new.py", ""),
        ("vscode-vfs://github/home/user/project/a.rs", ""),
        ("git:/home/user/project/a.py", ""),
        # Of other systems.
        ("file:///C%3A/a.py", ""),
        ("file://server/share/a.py", ""),
        # What is no URI, or no path.
        ("http://[::1", ""),
        ("file://[::1/a.py", ""),
        ("file:///a%00b.py", ""),
        ("file:a.py", ""),
        ("file:", ""),
        ("", ""),
    ],
)
def test_file_of_a_document(uri, file):
    assert locate(uri, "python", [folder_at(PROJECT)]).file == file


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:///c%3A/a.py", "file:///C:/a.py"),
        ("file:///a%20b.py", "file:///a b.py"),
        ("untitled:Untitled-1", "untitled:Untitled%2D1"),
    ],
)
def test_spellings_of_one_document(one, other):
    assert document_key(one) == document_key(other)


def test_different_documents_differ():
    uris = ["file:///a.py", "file:///A.py", "untitled:a.py", "file:///c:/a.py", "file:///d:/a.py"]
    assert len({document_key(uri) for uri in uris}) == len(uris)


@pytest.mark.parametrize(
    ("notebook", "language", "path"),
    [
        ("a/nb.ipynb", "python", "a/nb.py"),
        ("nb.ipynb", "julia", "nb.jl"),
        ("nb", "python", "nb.py"),
        ("nb.ipynb", "klingon", "nb.ipynb"),
        ("v1.2/nb.ipynb", "r", "v1.2/nb.r"),
    ],
)
def test_path_of_cells(notebook, language, path):
    assert cell_path(notebook, language) == path
