"""`flowfabric status`: what is installed, and whether it is what this client expects."""

from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from flowfabric_client.commands import (
    EXIT_NOT_CURRENT,
    dsn_option,
    examples,
    fail_install,
    json_option,
    print_json,
)
from flowfabric_client.install import InstallError, InstallStatus
from flowfabric_client.install import status as read_status


@click.command(epilog=examples("flowfabric status && echo current"))
@dsn_option
@json_option
def status(dsn: str, as_json: bool) -> None:
    """Show what is installed in a database and whether it is current.

    Ends with 0 if it is, with 3 if `flowfabric migrate` or a DBA has something to do, with 1 on an error.
    """
    try:
        found = read_status(dsn)
    except InstallError as exc:
        fail_install(exc, as_json=as_json)
    if as_json:
        print_json({"current": found.current, **asdict(found)})
    else:
        _print_status(found)
    raise SystemExit(0 if found.current else EXIT_NOT_CURRENT)


def _print_status(found: InstallStatus) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    functions = "as in this client" if found.digest_matches else "not those of this client"
    for name, value in (
        ("installed", found.library_version or "no"),
        ("this client", found.client_version),
        ("schema version", f"{found.schema_version} of {found.client_schema_version}"),
        ("pending migrations", ", ".join(found.pending) or "none"),
        ("functions", functions),
        ("test clock", "installed" if found.test_clock else "no"),
        ("owner", found.owner or "none"),
        ("missing roles", ", ".join(found.missing_roles) or "none"),
        ("missing memberships", ", ".join(found.missing_memberships) or "none"),
    ):
        table.add_row(name, value)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    for problem in found.problems:
        console.print(problem, style="yellow")
    if found.current:
        console.print("Everything is current.", style="green")
