"""``speclsp doctor``: checks the installation, and says the remedy of what is wrong."""

from __future__ import annotations

import sys
from typing import Any

import click

from speclsp import settings
from speclsp.cli.doctor_checks import Mark, findings
from speclsp.cli.options import SettingsCommand, given_options

_COLOURS: dict[Mark, str] = {"ok": "green", "note": "yellow", "problem": "red"}


@click.command(cls=SettingsCommand)
def doctor(**options: Any) -> None:
    """Check the installation; with settings given, check it with those.

    Every line begins with ok, note or problem; the exit code is 1 where there is a problem.
    """
    resolved = settings.resolve([given_options(options)]).settings
    n_problems = 0
    for finding in findings(resolved):
        n_problems += bool(finding.remedy)
        mark = click.style(f"{finding.mark:7}", fg=_COLOURS[finding.mark])
        click.echo(f"{mark}  {finding.subject}: {finding.text}")
        if finding.remedy:
            click.echo(f"         {finding.remedy}")
    sys.exit(1 if n_problems else 0)
