from indexed_project import write

from speclsp.project import ignore
from speclsp.project.ignore import IgnoredFiles, IgnoreRules


def test_patterns_decide_and_names_that_are_merely_not_indexed_do_not(tmp_path):
    write(tmp_path / ".gitignore", "private/\n*.local.py\n!open.local.py\n")
    ignored = IgnoredFiles(["drafts/"], print)

    def is_ignored(path):
        return ignored.is_ignored(str(tmp_path), str(tmp_path / path))

    assert is_ignored("private/a.py")
    assert is_ignored("private/deep/er/a.py")
    assert is_ignored("pkg/settings.local.py")
    assert is_ignored("drafts/a.py")
    for path in ("a.py", "open.local.py", "node_modules/a.js", "notes.ipynb", "table.csv"):
        assert not is_ignored(path)
    assert not ignored.is_ignored(str(tmp_path), str(tmp_path.parent / "private" / "a.py"))


def test_patterns_are_read_again_when_told(tmp_path):
    file = str(tmp_path / "a.py")
    ignored = IgnoredFiles([], print)
    assert not ignored.is_ignored(str(tmp_path), file)
    write(tmp_path / ".gitignore", "a.py\n")
    assert not ignored.is_ignored(str(tmp_path), file)
    ignored.renew([])
    assert ignored.is_ignored(str(tmp_path), file)
    ignored.renew(["!a.py"])
    assert not ignored.is_ignored(str(tmp_path), file)


def test_a_verdict_is_kept_until_the_patterns_are_renewed(tmp_path, monkeypatch):
    asked: list[str] = []
    matched = IgnoreRules.ignored_by_patterns

    def counting(rules, path):
        asked.append(path)
        return matched(rules, path)

    monkeypatch.setattr(IgnoreRules, "ignored_by_patterns", counting)
    ignored = IgnoredFiles(["a.py"], print)
    for _ in range(3):
        assert ignored.is_ignored(str(tmp_path), str(tmp_path / "a.py"))
    assert asked == ["a.py"]
    ignored.renew([])
    assert not ignored.is_ignored(str(tmp_path), str(tmp_path / "a.py"))
    assert asked == ["a.py", "a.py"]


def test_patterns_without_end_are_compiled_once_if_at_all_and_told_once(tmp_path, monkeypatch):
    compiled: list[str] = []
    made = ignore._LinearPattern.pattern_to_regex

    def counting(pattern):
        compiled.append(pattern)
        return made(pattern)

    monkeypatch.setattr(ignore._LinearPattern, "pattern_to_regex", staticmethod(counting))
    write(tmp_path / "few" / ".gitignore", "".join(f"few-{n}\n" for n in range(1_900)))
    write(
        tmp_path / "many" / ".gitignore", "".join(f"many-{n}-{'x' * 18}\n" for n in range(35_000))
    )
    told: list[str] = []
    ignored = IgnoredFiles([], told.append)
    for _ in range(3):  # as when documents are opened
        ignored.renew([])
        assert not ignored.is_ignored(str(tmp_path), str(tmp_path / "few" / "a.py"))
        assert ignored.is_ignored(str(tmp_path), str(tmp_path / "many" / "a.py"))
    assert len(compiled) == 1_900
    assert [str(tmp_path / "many" / ".gitignore") in message for message in told] == [True]
