import errno
import queue
from pathlib import Path
from unittest.mock import Mock

import pytest
from indexed_project import write
from waiting import until
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from speclsp.errors import SpecLspError
from speclsp.project.watch import Watcher, WatchPlace, plan_watches


class Changes(list[str]):
    def under(self, root: Path) -> set[str]:
        return {str(Path(path).relative_to(root)) for path in self if path.startswith(str(root))}


@pytest.fixture
def changes():
    return Changes()


@pytest.fixture
def watcher(changes):
    made = Watcher(changes.append)
    yield made
    made.close()


def whole(path: Path) -> frozenset[WatchPlace]:
    return frozenset({WatchPlace(str(path), recursive=True)})


def test_a_watch_that_ends_while_it_reads_is_no_error(tmp_path, caplog):
    ended = Observer()._emitter_class(queue.Queue(), ObservedWatch(str(tmp_path), recursive=True))
    ended.queue_events(0.0)
    assert [record.message for record in caplog.records] == []


class TestPlan:
    def test_clean_folder_is_watched_whole(self):
        assert plan_watches("/r", {"": False, "a": False, "a/b": False}) == whole(Path("/r"))

    def test_ignored_folders_are_not_watched(self):
        folders = {"": True, "src": False, "src/x": False, "web": False, "web/app": True,
                   "web/app/ui": False, "web/lib": False}  # fmt: skip
        assert plan_watches("/r", folders) == {
            WatchPlace("/r", recursive=False),
            WatchPlace("/r/src", recursive=True),
            WatchPlace("/r/web", recursive=False),
            WatchPlace("/r/web/app", recursive=False),
            WatchPlace("/r/web/app/ui", recursive=True),
            WatchPlace("/r/web/lib", recursive=True),
        }

    def test_too_many_watches_are_one(self):
        folders = {"": True} | {f"package{number}": True for number in range(100)}
        assert plan_watches("/r", folders) == whole(Path("/r"))

    def test_nothing_scanned_yet(self):
        assert plan_watches("/r", {}) == frozenset()


class TestWatcher:
    def test_places_are_dropped(self, project, tmp_path, watcher, changes):
        other = tmp_path / "other"
        other.mkdir()
        watcher.set_places(whole(project))
        watcher.set_places(whole(other))
        write(project / "a.py", "x")
        write(other / "b.py", "x")
        until(lambda: "b.py" in changes.under(other))
        assert changes.under(project) == set()

    def test_missing_place_is_passed_over(self, project, watcher, changes):
        watcher.set_places(whole(project) | whole(project / "gone"))
        write(project / "a.py", "x")
        until(lambda: "a.py" in changes.under(project))

    def test_watched_folder_is_removed(self, project, watcher, changes):
        (project / "sub").mkdir()
        watcher.set_places(whole(project / "sub"))
        (project / "sub").rmdir()
        until(lambda: "sub" in changes.under(project))
        watcher.set_places(whole(project))
        write(project / "a.py", "x")
        until(lambda: "a.py" in changes.under(project))

    def test_closing_twice(self, project, watcher):
        watcher.set_places(whole(project))
        watcher.close()
        watcher.close()

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
    def test_limit_of_the_system_is_told_with_its_remedy(
        self, project, watcher, monkeypatch, number
    ):
        full = OSError(number, "inotify watch limit reached")
        monkeypatch.setattr(BaseObserver, "schedule", Mock(side_effect=full))
        with pytest.raises(SpecLspError, match="inotify watch limit reached") as caught:
            watcher.set_places(whole(project))
        assert "max_user_watches" in caught.value.remedy

    def test_limit_reached_below_a_folder_is_noticed(self, project, watcher, monkeypatch):
        # watchdog passes such folders over; only a further watch shows it.
        real_schedule = BaseObserver.schedule

        def schedule(self, handler, path, **kwargs):
            if path != str(project):
                raise OSError(errno.ENOSPC, "inotify watch limit reached")
            return real_schedule(self, handler, path, **kwargs)

        monkeypatch.setattr(BaseObserver, "schedule", schedule)
        with pytest.raises(SpecLspError, match="limit"):
            watcher.set_places(whole(project))
