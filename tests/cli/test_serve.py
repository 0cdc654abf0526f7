import pytest
from click.testing import CliRunner

from speclsp.cli.serve import serve


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--stdio", "--tcp", "127.0.0.1:0"], "one of"),
        (["--tcp", "127.0.0.1:0", "--ws", "127.0.0.1:0"], "one of"),
        (["--tcp", "nowhere"], "--tcp"),
        (["--ws", "127.0.0.1:99999"], "--ws"),
        (["--ctx-size", "x"], "--ctx-size"),
    ],
)
def test_wrong_options_are_usage_errors(argv: list[str], word: str) -> None:
    outcome = CliRunner().invoke(serve, argv)
    assert outcome.exit_code == 2
    assert word in outcome.output
