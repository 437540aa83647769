"""`flowfabric doctor`: what is wrong with an installation."""

from __future__ import annotations

import click

from flowfabric_client import rows
from flowfabric_client.commands import EXIT_ERROR, examples, print_json
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._output import as_dict, console, text
from flowfabric_client.commands._text import STATE_STYLES

# Most severe first, as the engine sorts them.
SEVERITIES = ("critical", "warning", "notice")


@click.command(epilog=examples("flowfabric doctor", "flowfabric doctor --fail-on critical --json"))
@click.option("--all", "include_ok", is_flag=True, help="Show checks that found nothing too.")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
@engine_command
def doctor(engine: Engine, include_ok: bool, fail_on: str) -> None:
    """Look for problems of the installation and say what to do about them.

    Ends with 1 if a finding is at least as severe as --fail-on, else with 0.
    """
    findings = engine.client.doctor(include_ok=include_ok)
    if engine.as_json:
        print_json({"findings": [as_dict(finding) for finding in findings]})
    else:
        _print_findings(findings)
    severe = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    if any(finding.severity in severe for finding in findings):
        raise SystemExit(EXIT_ERROR)


def _print_findings(findings: list[rows.Finding]) -> None:
    out = console()
    if not findings:
        out.print("Nothing found: all is well.", style="green")
    for finding in findings:
        out.print(
            text(finding.severity).append(f" {finding.check_name}: "),
            style=STATE_STYLES[finding.severity],
            end="",
        )
        out.print(text(finding.finding), soft_wrap=True)
        if finding.what_to_do:
            out.print(text(f"  {finding.what_to_do}"), style="bright_black", soft_wrap=True)
