"""`flowfabric dev`: a private Postgres with the engine in it, for as long as the command runs."""

import json
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import psycopg
from psycopg import sql
from rich.console import Console

from flowfabric_client import Client
from flowfabric_client.commands import examples, fail, json_option
from flowfabric_client.dev import (
    PROVIDERS,
    DevServerError,
    PostgresServer,
    ProviderName,
    ServerAlreadyRunningError,
    start_server,
)
from flowfabric_client.dev.env import with_dbname
from flowfabric_client.install import InstallError, migrate

DATABASE = "flowfabric"


@click.command(epilog=examples("flowfabric dev", "flowfabric dev --ephemeral --port 5433"))
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Directory of the server, kept between runs. Default: flowfabric/dev in the user's data directory.",
)
@click.option("--ephemeral", is_flag=True, help="Throw the data away at the end.")
@click.option("--port", type=click.IntRange(1, 65535), help="Listen on this port of 127.0.0.1 too.")
@click.option(
    "--provider",
    type=click.Choice(["auto", *PROVIDERS]),
    default="auto",
    show_default=True,
    help="Where the server comes from: FLOWFABRIC_TEST_DSN, a container (with --ephemeral), the package of "
    "[embedded], or programs installed on this machine. `auto` takes the first that can serve.",
)
@click.option("--pg-version", type=int, metavar="MAJOR", help="Major version that the server must have.")
@json_option
def dev(
    *,
    data_dir: Path | None,
    ephemeral: bool,
    port: int | None,
    provider: ProviderName,
    pg_version: int | None,
    as_json: bool,
) -> None:
    """Run a private Postgres with FlowFabric in its database `flowfabric`, until Ctrl-C.

    The next run finds the data of this one, and only one run at a time has a data directory: a second one
    is told how to reach the server of the first. The server ends with this command, even if it is killed.
    """
    if ephemeral and data_dir is not None:
        raise click.UsageError("--ephemeral throws the data away, --data-dir keeps them: choose one.")
    console = Console(highlight=False, markup=False, soft_wrap=True, quiet=as_json)

    def on_step(step: str) -> None:
        console.print(f"  {step}")

    try:
        with (
            _sigterm_as_interrupt(),
            start_server(
                data_dir=data_dir,
                keep=not ephemeral,
                port=port,
                provider=provider,
                version=pg_version,
                on_step=on_step,
            ) as server,
        ):
            dsn = _install(server, on_step, as_json=as_json)
            try:
                _announce(server, dsn, console, as_json=as_json, is_kept=not ephemeral)
                server.wait()
            except KeyboardInterrupt:
                console.print("  stopping")
                return
            fail(f"The server ended by itself.\nServer log:\n{server.log_tail()}", as_json=as_json)
    except ServerAlreadyRunningError as error:
        how = (
            f": connect with {with_dbname(error.dsn, DATABASE)}"
            if error.dsn
            else ", and is about to come up."
        )
        fail(f"A server already runs on {error.data_dir}{how}", as_json=as_json)
    except DevServerError as error:
        fail(str(error), as_json=as_json)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _install(server: PostgresServer, on_step: Callable[[str], None], *, as_json: bool) -> str:
    """Bring the database and the engine in it up to date; return its connection string."""
    dsn = server.dsn(DATABASE)
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            if not connection.execute("select from pg_database where datname = %s", [DATABASE]).rowcount:
                on_step(f"creating database {DATABASE}")
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
        migrate(dsn, on_step=on_step)
        with Client(dsn) as client:
            # Without a key nothing could suspend. One that somebody has rotated to stays.
            if not client.list_waitpoint_hmac_kids():
                on_step("making a signing key for waitpoints")
                client.initialize(hmac_kid="dev")
    except InstallError as error:
        fail(str(error), sql=error.sql, as_json=as_json)
    except psycopg.Error as error:
        fail(f"Database {DATABASE} cannot be created: {error}", as_json=as_json)
    return dsn


# What people call the providers.
_SOURCES = {
    "env": "the server of FLOWFABRIC_TEST_DSN",
    "container": "a container",
    "local": "programs of this machine",
    "wheel": "the package of [embedded]",
}


def _announce(server: PostgresServer, dsn: str, console: Console, *, as_json: bool, is_kept: bool) -> None:
    if as_json:
        # On one line, unlike other commands: who reads it cannot wait for the end of the output.
        fields = {
            "dsn": dsn,
            "version": server.version,
            "provider": server.provider,
            "bin_dir": str(server.bin_dir) if server.bin_dir else None,
            "data_dir": str(server.data_dir) if server.data_dir else None,
            "passed_over": dict(server.passed_over),
        }
        click.echo(json.dumps(fields))
        return
    console.print(f"FlowFabric runs on PostgreSQL {server.version}.", style="green")
    where = f" in {server.bin_dir}" if server.bin_dir else ""
    console.print(f"  server  {_SOURCES[server.provider]}{where}")
    if (reason := server.passed_over.get("wheel")) is not None:
        console.print(f"          not {_SOURCES['wheel']}: {reason}")
    if server.data_dir is not None:
        fate = "kept between runs" if is_kept else "thrown away at the end"
        console.print(f"  data    {server.data_dir}, {fate}")
    else:
        console.print(
            "  data    where that server keeps them"
            if server.provider == "env"
            else "  data    thrown away at the end"
        )
    console.print("In another terminal:\n")
    console.print(f"  export FLOWFABRIC_DSN={shlex.quote(dsn)}", style="bold")
    console.print("  flowfabric status", style="bold")
    console.print("\nCtrl-C stops it.")
