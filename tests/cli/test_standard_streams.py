import os
import subprocess
import sys

from speclsp.cli.standard_streams import Wire


def test_only_the_wire_reaches_standard_output() -> None:
    script = (
        "import os, sys\n"
        "from speclsp.cli.standard_streams import take_stdout, Wire\n"
        "wire = Wire(take_stdout(), on_broken=lambda: None)\n"
        "sys.stdout.write('from Python\\n'); sys.stdout.flush()\n"
        "os.write(1, b'from C\\n')\n"
        "wire.write(b'answer\\n')\n"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert outcome.stdout == b"answer\n"
    assert outcome.stderr == b"from Python\nfrom C\n"


def test_a_broken_wire_is_told_once() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    broken: list[bool] = []
    wire = Wire(writer, on_broken=lambda: broken.append(True))
    wire.write(b"x")
    wire.write(b"y")
    os.close(writer)
    assert wire.broken
    assert broken == [True]
