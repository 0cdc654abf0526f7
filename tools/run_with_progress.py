"""Run a command quietly, with one line that says how long it has been running.

    python3 tools/run_with_progress.py TITLE LOG_FILE COMMAND [ARGUMENT ...]

What the command prints goes to LOG_FILE; its end is shown where the command fails.
"""

import subprocess
import sys
import time
from pathlib import Path

SHOWN_LINES = 30
SECONDS_BETWEEN_PLAIN_LINES = 30


def main() -> int:
    """Run the command; return its exit code."""
    title, log_name, *command = sys.argv[1:]
    log_path = Path(log_name)
    started = time.monotonic()
    is_terminal = sys.stderr.isatty()
    told = 0.0
    with log_path.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)  # noqa: S603  # ours
        while True:
            try:
                code = process.wait(timeout=1)
                break
            except subprocess.TimeoutExpired:
                seconds = time.monotonic() - started
            if is_terminal:
                sys.stderr.write(f"\r{title} … {_clock(seconds)} ")
            elif seconds - told >= SECONDS_BETWEEN_PLAIN_LINES or told == 0:
                told = seconds
                sys.stderr.write(f"{title} … {_clock(seconds)}\n")
            sys.stderr.flush()
    outcome = "done" if code == 0 else f"failed (exit code {code})"
    start = "\r" if is_terminal else ""
    sys.stderr.write(f"{start}{title}: {outcome} after {_clock(time.monotonic() - started)}\n")
    if code != 0:
        lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        sys.stderr.write("\n".join([*lines[-SHOWN_LINES:], f"All of it: {log_path}", ""]))
    return code


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


if __name__ == "__main__":
    sys.exit(main())
