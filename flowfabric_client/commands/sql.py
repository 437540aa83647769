"""`flowfabric sql`: the installation as one file for psql."""

import click

from flowfabric_client.commands import examples, fail
from flowfabric_client.install import InstallError, render_roles_sql, render_sql


@click.command(epilog=examples("flowfabric sql | psql -1 -v ON_ERROR_STOP=1 -f -"))
@click.option("--with-test-clock", is_flag=True, help="Include the clock that tests can move.")
@click.option("--roles-only", is_flag=True, help="Print only the roles: what a DBA runs once per server.")
def sql(with_test_clock: bool, roles_only: bool) -> None:
    """Print SQL that installs FlowFabric in an empty database."""
    if roles_only and with_test_clock:
        raise click.UsageError("--roles-only prints no clock: leave --with-test-clock out.")
    try:
        text = render_roles_sql() if roles_only else render_sql(with_test_clock=with_test_clock)
    except InstallError as exc:
        fail(str(exc))
    click.echo(text, nl=False)
