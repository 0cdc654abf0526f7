import random
import subprocess
from pathlib import Path

import pytest
from indexed_project import git, write
from pathspec import GitIgnoreSpec

from speclsp.project.ignore import IgnoreRules, compiled_patterns


def rules(root: Path, *exclude: str) -> IgnoreRules:
    return IgnoreRules(root, exclude)


class TestGitignore:
    def test_nested_files_override_outer_ones(self, project):
        write(project / ".gitignore", "*.txt\n/build/\n")
        write(project / "sub" / ".gitignore", "!keep.txt\nlocal/\n")
        under_test = rules(project)
        assert under_test.ignored("a.txt")
        assert under_test.ignored("sub/a.txt")
        assert not under_test.ignored("sub/keep.txt")
        assert not under_test.ignored("sub/deeper/keep.txt")
        assert under_test.ignored("sub/local/")
        assert not under_test.ignored("local/")
        assert under_test.ignored("build/")
        assert not under_test.ignored("sub/build/")

    def test_nothing_below_an_ignored_folder_comes_back(self, project):
        write(project / ".gitignore", "out/\n!out/keep.py\n")
        assert rules(project).ignored_or_within("out/keep.py")
        assert rules(project).ignored_or_within("out/deep/er/")
        assert not rules(project).ignored_or_within("src/keep.py")

    def test_folder_patterns_spare_files(self, project):
        write(project / ".gitignore", "logs/\n")
        assert not rules(project).ignored("logs")
        assert rules(project).ignored("logs/")

    def test_info_exclude(self, project):
        git(project, "init")
        write(project / ".git" / "info" / "exclude", "private.py\n")
        write(project / "sub" / ".gitignore", "!private.py\n")
        assert rules(project).ignored("private.py")
        assert not rules(project).ignored("sub/private.py")

    def test_rules_of_the_repository_around_the_folder(self, project):
        git(project, "init")
        write(project / ".gitignore", "*.gen.py\n/packages/a/tmp/\n/tmp2/\n")
        write(project / "packages" / ".gitignore", "scratch.py\n")
        write(project / ".git" / "info" / "exclude", "packages/a/x.py\n")
        folder = project / "packages" / "a"
        folder.mkdir()
        under_test = rules(folder)
        assert under_test.ignored("m.gen.py")
        assert under_test.ignored("tmp/")
        assert not under_test.ignored("tmp2/")
        assert under_test.ignored("sub/scratch.py")
        assert under_test.ignored("x.py")
        assert not under_test.ignored("y.py")

    def test_folder_that_is_ignored_itself_was_opened_on_purpose(self, project):
        git(project, "init")
        write(project / ".gitignore", "generated/\n")
        (project / "generated" / "deep").mkdir(parents=True)
        assert not rules(project / "generated").ignored("a.py")
        assert not rules(project / "generated" / "deep").ignored("a.py")

    @pytest.mark.parametrize(
        "content", [b"\xff\xfe\0*.py", b"[\n*.log\n", b"\xef\xbb\xbf*.log\r\n"]
    )
    def test_odd_files_do_no_harm(self, project, content):
        write(project / ".gitignore", content)
        assert not rules(project).ignored("a.md")

    def test_bad_lines_leave_the_others_in_force(self, project):
        write(project / ".gitignore", "!\n[z-a]\n*.foo\n")
        assert rules(project).ignored("a.foo")

    def test_link_is_not_followed(self, project, tmp_path):
        write(tmp_path / "patterns", "*\n")
        (project / ".gitignore").symlink_to(tmp_path / "patterns")
        assert not rules(project).ignored("a.py")

    def test_agrees_with_git(self, project):
        git(project, "init")
        write(
            project / ".gitignore",
            "*.foo\n!important.foo\n/root_only.py\ndoc/*.md\n**/cache2/\na/**/b.py\n\\#odd\n"
            "trailing \nfoo[0-9].py\nx?z.py\n!/a/keep/\n/a/*\n",
        )
        write(project / "sub" / ".gitignore", "/root_only.py\n!*.foo\n*.md\n!doc/\n")
        listing = """
            m.foo important.foo root_only.py sub/root_only.py sub/m.foo doc/x.md doc/sub/x.md
            sub/doc/x.md cache2/a.py sub/cache2/a.py cache2 a/b.py a/x/b.py a/x/y/b.py a/keep/c.py
            #odd trailing foo1.py foo12.py xyz.py xz.py sub/xyz.py sub/x.md README.md
        """
        paths = listing.split()
        result = subprocess.run(
            ["git", "check-ignore", "--stdin", "--no-index"],
            cwd=project,
            input="\n".join(paths),
            capture_output=True,
            text=True,
            check=False,
        )
        ignored_by_git = set(result.stdout.split("\n")) - {""}
        under_test = rules(project)
        assert {path for path in paths if under_test.ignored_or_within(path)} == ignored_by_git
        assert 5 < len(ignored_by_git) < len(paths) - 5


class TestHostile:
    """Patterns and names of a repository that is out to stop the process."""

    @pytest.mark.timeout(20)  # a regular expression that backtracks takes years
    @pytest.mark.parametrize(
        ("pattern", "path"),
        [
            ("*a" * 12 + "b", "a" * 250),
            ("*a" * 12 + "b/x", "a/" * 1000),
            ("**/a/**/a/**/a/**/a/**/b", "a/" * 1000),
            ("a/**/*a*a*a/**/*a*a/**/b*b*b", "a/" + "a" * 250 + "/" + "a/" * 900),
        ],
    )
    def test_no_pattern_takes_long(self, pattern, path):
        spec, bad = compiled_patterns([pattern])
        assert bad == ()
        assert not spec.match_file(path)

    @pytest.mark.parametrize(
        "content", ["a\n" * 2_001, "a" * 130_000 + "\n", "# a comment\n" * 30_000]
    )
    def test_a_folder_of_too_many_patterns_is_left_out(self, project, content):
        write(project / "sub" / ".gitignore", content + "b.py\n")
        under_test = rules(project, "!kept/")
        assert under_test.ignored("sub/b.py")
        assert under_test.ignored("sub/c.py")
        assert under_test.ignored("sub/deep/er/")
        assert not under_test.ignored("c.py")
        assert not under_test.ignored("sub/kept/c.py")
        (message,) = under_test.too_large
        assert message.startswith(f"{project / 'sub' / '.gitignore'} is too large: at most 2000 ")
        assert '"!src/"' in message

    def test_what_applies_from_outer_folders_counts(self, project):
        git(project, "init")
        write(project / ".git" / "info" / "exclude", "a\n" * 900)
        write(project / ".gitignore", "a\n" * 900)
        write(project / "many" / ".gitignore", "a\n" * 201)
        write(project / "few" / ".gitignore", "a\n" * 200)
        for under_test, prefix in ((rules(project), ""), (rules(project / "many"), "many/")):
            assert under_test.ignored("many/c.py".removeprefix(prefix))
        assert not rules(project).ignored("few/c.py")
        assert not rules(project / "few").ignored("c.py")
        write(project / ".git" / "info" / "exclude", "a\n" * 2_001)
        assert rules(project).ignored("c.py")
        assert rules(project / "few").ignored("c.py")

    def test_the_patterns_of_a_project_are_bounded(self, project):
        for n in range(12):
            write(project / f"{n}" / ".gitignore", "a\n" * 2_000)
        under_test = rules(project)
        assert [under_test.ignored(f"{n}/c.py") for n in range(12)] == [False] * 10 + [True] * 2
        assert len(under_test.too_large) == 2

    @pytest.mark.slow
    def test_the_patterns_mean_what_pathspec_says(self):
        dice = random.Random(1)
        pieces = [
            "a",
            "b",
            "*",
            "?",
            "**",
            "/",
            "[ab]",
            "a*",
            "*b*",
            "/**/",
            "**/",
            "!",
            "\\*",
            ".",
        ]
        names = ["a", "b", "ab", "aab", "bb", "a.b", "abab", "*"]
        n_ignored = n_compared = 0
        while n_compared < 10_000:
            line = "".join(dice.choices(pieces, k=dice.randint(1, 8)))
            try:
                expected = GitIgnoreSpec.from_lines([line])
            except ValueError:
                continue
            spec, _ = compiled_patterns([line])
            path = "/".join(dice.choices(names, k=dice.randint(1, 5))) + dice.choice(["", "/"])
            verdict = expected.check_file(path).include
            assert spec.check_file(path).include == verdict, (line, path)
            n_compared, n_ignored = n_compared + 1, n_ignored + (verdict is True)
        assert n_ignored > 1_000


class TestBuiltIn:
    @pytest.mark.parametrize(
        "path",
        [".git/", "node_modules/", "a/b/node_modules/", ".venv/", "venv/", "__pycache__/",
         "x.egg-info/", "a.min.js", "package-lock.json", "sub/Cargo.lock", "logo.PNG", "m.pyc",
         "data.csv", "model.gguf"],
    )  # fmt: skip
    def test_left_out_without_a_gitignore(self, project, path):
        assert rules(project).ignored(path)

    @pytest.mark.parametrize(
        "path", ["src/", "build/", "env/", "node_modules", "venv", "git.py", "locks.py", "a.json"]
    )
    def test_kept(self, project, path):
        assert not rules(project).ignored(path)


class TestExclude:
    def test_patterns_of_the_user(self, project):
        under_test = rules(project, "gen_*.py", "/docs/")
        assert under_test.ignored("sub/gen_a.py")
        assert under_test.ignored("docs/")
        assert not under_test.ignored("sub/docs/")

    def test_user_may_bring_back(self, project):
        write(project / ".gitignore", "*.sql\n")
        under_test = rules(project, "!node_modules/", "!dump.sql", "!*.csv")
        assert not under_test.ignored("node_modules/")
        assert not under_test.ignored("dump.sql")
        assert not under_test.ignored("a.csv")
        assert under_test.ignored("other.sql")

    def test_bad_pattern_is_told_and_the_rest_works(self, project):
        under_test = rules(project, "!", "*.foo")
        assert under_test.bad_patterns == ("!",)
        assert under_test.ignored("a.foo")
