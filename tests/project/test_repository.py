import os
from pathlib import Path

import pytest
from indexed_project import git, write

from speclsp.project.repository import find_repository, repository_name


def test_the_name_is_the_folders(project):
    assert repository_name(project) == "project"
    git(project, "init")
    (project / "deep" / "er").mkdir(parents=True)
    assert repository_name(project / "deep" / "er") == "project"


def test_linked_work_tree(project, tmp_path):
    git(project, "init")
    git(project, "commit", "--allow-empty", "-m", "x")
    git(project, "worktree", "add", str(tmp_path / "linked"))
    assert (tmp_path / "linked" / ".git").is_file()
    assert repository_name(tmp_path / "linked") == "linked"
    repository = find_repository(tmp_path / "linked")
    assert repository is not None
    assert repository.work_tree == tmp_path / "linked"
    assert (repository.common_dir / "info").is_dir()


@pytest.mark.parametrize("content", ["", "nonsense", "gitdir:", "gitdir: /nowhere\n", "\0"])
def test_broken_git_file(project, content):
    write(project / ".git", content)
    assert repository_name(project) == "project"


def test_root_folder_has_a_name():
    assert repository_name(Path("/"))


def test_missing_folder(tmp_path):
    assert repository_name(tmp_path / "gone") == "gone"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [".git", "elsewhere/commondir"])
@pytest.mark.parametrize("what", ["a pipe", "a device", "a NUL"])
def test_what_an_archive_may_hold_instead_of_gits_files(project, name, what):
    write(project / ".git", "gitdir: elsewhere")
    write(project / "elsewhere" / "HEAD", "ref: refs/heads/main")
    file = project / name
    file.unlink(missing_ok=True)
    if what == "a pipe":
        os.mkfifo(file)
    elif what == "a device":
        file.symlink_to("/dev/zero")
    else:
        write(file, "gitdir: else\0where")
    assert repository_name(project) == project.name
    find_repository(project)
