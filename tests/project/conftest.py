import pytest
from indexed_project import IndexUnderTest


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.fixture
def make_index(project):
    made: list[IndexUnderTest] = []

    def make(root=project, **arguments):
        made.append(IndexUnderTest(root, **arguments))
        return made[-1]

    yield make
    for under_test in made:
        under_test.tokenize.gate.set()
        under_test.index.close()
        under_test.index._thread.join(60)
        assert not under_test.index._thread.is_alive()
