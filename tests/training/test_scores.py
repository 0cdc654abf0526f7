"""What answers are worth, and at which places they are asked for."""

from source_files import source_file

from training.measurement import draw_probes, first_line, repeats_a_line

TEXT = "def area(width, height):\n    return width * height\n\n\n" * 20


def test_first_line():
    assert first_line("height)  \nnext") == "height)"
    assert first_line("") == ""


def test_a_line_three_times_is_a_loop():
    assert repeats_a_line("a = 1\nb = 2\na = 1\n    a = 1\n")
    assert not repeats_a_line("a = 1\na = 1\n")
    assert not repeats_a_line(")\n)\n)\n")


def test_probes_are_of_held_out_files_and_both_kinds():
    files = [source_file(f"{name}/a.py", TEXT) for name in "ab"]
    probes = draw_probes(files, 40, seed=1)
    assert probes == draw_probes(files, 40, seed=1)
    assert {(p.package, p.kind) for p in probes} == {
        (name, kind) for name in "ab" for kind in ("mid-line", "line start")
    }
    for probe in probes:
        assert probe.prefix + probe.typed + probe.expected + probe.suffix in TEXT
        assert probe.suffix.startswith("\n")
        assert not probe.typed.strip() if probe.kind == "line start" else probe.typed.strip()
