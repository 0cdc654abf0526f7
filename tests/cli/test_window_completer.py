"""What Windows lacks, hidden on this system: the modules load, and each window has its own engine.

speclsp was never started on Windows.
"""

import subprocess
import sys

AS_ON_WINDOWS = """
import importlib, os, select, signal, socket, sys
NAMES = (
    "speclsp.cli.main", "speclsp.cli.serve", "speclsp.cli.engine", "speclsp.cli.window_completer",
    "speclsp.cli.complete", "speclsp.lsp.server", "speclsp.lsp.model_commands",
    "speclsp.engine_process.lifetime",
    "speclsp.engine_process.client", "speclsp.completer.local", "speclsp.models.download",
)
for name in NAMES:
    importlib.import_module(name)
for name in [name for name in sys.modules if name.partition(".")[0] == "speclsp"]:
    del sys.modules[name]
for name in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "readline"):
    sys.modules[name] = None
ABSENT = {
    os: "getuid geteuid getgid O_NOFOLLOW O_NONBLOCK O_CLOEXEC sched_getaffinity fork setsid",
    socket: "AF_UNIX SO_PEERCRED MSG_DONTWAIT TCP_USER_TIMEOUT",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGPIPE",
    select: "poll epoll",
}
for module, names in ABSENT.items():
    for name in names.split():
        delattr(module, name)
sys.platform = "win32"
for name in NAMES:
    importlib.import_module(name)

from pathlib import Path
from speclsp.cli.options import prepare_to_serve
from speclsp.cli.window_completer import make_completer
from speclsp.engine_process.place import engine_place
from speclsp.errors import EngineProcessError
from speclsp.project.ignore import IgnoredFiles
from speclsp.project.source_text import read_source
from speclsp.settings import Settings

prepare_to_serve()
Path(".gitignore").write_text("ignored.py\\n")
root = os.getcwd()
assert IgnoredFiles([], print).is_ignored(root, os.path.join(root, "ignored.py"))
assert read_source(".gitignore").text == "ignored.py\\n"
completer = make_completer(Settings(engine="shared", persist=False))
print(type(completer).__name__)
completer.close()
try:
    engine_place(Settings())
except EngineProcessError as error:
    print(error.remedy)
"""


def test_without_what_windows_lacks_each_window_has_its_own_engine(tmp_path):
    outcome = subprocess.run(
        [sys.executable, "-c", AS_ON_WINDOWS],
        check=False,
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.returncode == 0, outcome.stderr
    kind, remedy = outcome.stdout.splitlines()
    assert kind == "LocalCompleter"
    assert "`engine` to own" in remedy
