"""`flowfabric migrate`: install the engine in a database, or upgrade it."""

from dataclasses import asdict

import click
from rich.console import Console

from flowfabric_client.commands import dsn_option, examples, fail_install, json_option, print_json
from flowfabric_client.install import DEFAULT_LOCK_TIMEOUT_MS, InstallError, MigrateReport
from flowfabric_client.install import migrate as run_migrate


@click.command(epilog=examples("flowfabric migrate --dsn postgresql://owner@db.example/shop"))
@dsn_option
@click.option(
    "--with-test-clock/--without-test-clock",
    default=None,
    help="Install the clock that tests can move, or take it away. Default: keep what the installation has.",
)
@click.option(
    "--owner",
    metavar="ROLE",
    help="Role that owns everything: you, or one that no other login can act as. Default: the schema's owner,"
    " else you.",
)
@click.option(
    "--lock-timeout-ms",
    type=click.IntRange(min=0),
    default=DEFAULT_LOCK_TIMEOUT_MS,
    show_default=True,
    help="How long a statement may wait for a lock of another session; 0 waits for ever.",
)
@click.option("--force", is_flag=True, help="Load the functions again even if nothing changed.")
@json_option
def migrate(
    *,
    dsn: str,
    with_test_clock: bool | None,
    owner: str | None,
    lock_timeout_ms: int,
    force: bool,
    as_json: bool,
) -> None:
    """Install FlowFabric in a database, or bring an installation up to this version.

    Safe to repeat and to interrupt: a second run changes nothing and says so, and a run after a kill
    continues. Connect directly to the server, not through a pooler in transaction mode.
    """
    console = Console(highlight=False, markup=False, soft_wrap=True, quiet=as_json)
    try:
        report = run_migrate(
            dsn,
            with_test_clock=with_test_clock,
            owner=owner,
            lock_timeout_ms=lock_timeout_ms,
            force=force,
            on_step=lambda step: console.print(f"  {step}"),
        )
    except InstallError as exc:
        fail_install(exc, as_json=as_json)
    if as_json:
        print_json(asdict(report))
    else:
        _print_report(console, report)


def _print_report(console: Console, report: MigrateReport) -> None:
    name = f"FlowFabric {report.version} (schema version {report.schema_version})"
    clock = ", with the test clock" if report.test_clock else ""
    if not report.changed:
        console.print(f"Nothing to do: {name} is installed{clock}.", style="green")
        return
    for signature in report.dropped:
        console.print(f"  dropped {signature}, which no file defines any more")
    console.print(f"{name} is installed{clock}; its owner is {report.owner}.", style="green")
    if report.previous_version is None:
        console.print("Next: flowfabric keys rotate makes the key without which nothing can suspend.")
