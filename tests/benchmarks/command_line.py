"""The benchmarks' command line, in this process."""

from click.testing import CliRunner, Result

from benchmarks.commands import cli


def run(*arguments: object, fails: bool = False) -> Result:
    """Run a command, which is to succeed unless it ``fails``."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert (result.exit_code != 0) == fails, result.output
    return result
