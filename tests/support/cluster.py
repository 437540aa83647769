"""The private server of a test process: `flowfabric_client.testing` starts it, the rest only we need."""

from __future__ import annotations

import secrets
import subprocess
from functools import cached_property
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from flowfabric_client.dev import PostgresServer
from flowfabric_client.testing import ScratchServer

Connection = psycopg.Connection[TupleRow]

REPOSITORY = Path(__file__).resolve().parents[2]


class HarnessError(Exception):
    """The test environment lacks something; the message says what to do about it."""


class Cluster(ScratchServer):
    """One running server, its templates and its login roles."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server)
        self._roles: list[str] = []

    @property
    def version(self) -> int:
        """The server's major version."""
        return self.server.version

    @property
    def bin_dir(self) -> Path | None:
        """Where the server's own programs are, if it runs from local binaries."""
        return self.server.bin_dir

    @cached_property
    def template(self) -> str:
        """A database in which FlowFabric is installed with the test clock."""
        return self.installed_database(with_test_clock=True)

    @cached_property
    def production_template(self) -> str:
        """A database in which FlowFabric is installed as in production."""
        return self.installed_database(with_test_clock=False)

    @cached_property
    def pgtap_template(self) -> str:
        """The template with pgTAP beside it, in schema `pgtap`."""
        name = self.create_database(self.template)
        with psycopg.connect(self.dsn(name), autocommit=True) as connection:
            install_pgtap(connection)
        return name

    def create_login_role(self, *memberships: str) -> tuple[str, str]:
        """Make a login role that is a member of the given roles; return its name and password."""
        name = f"{self._prefix}_role_{len(self._roles)}"
        password = secrets.token_hex(8)
        self._admin.execute(
            sql.SQL("create role {} login password {} in role {}").format(
                sql.Identifier(name),
                sql.Literal(password),
                sql.SQL(", ").join(map(sql.Identifier, memberships)),
            )
        )
        self._roles.append(name)
        return name, password

    def stop(self) -> None:
        """Take away everything that was made here, then stop the server if it was started here."""
        self.drop_databases()
        for name in self._roles:
            self._admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))
        super().stop()


def install_pgtap(connection: Connection) -> None:
    """Put pgTAP into schema `pgtap`: the server's extension if it has one, else a copy as plain SQL."""
    connection.execute("create schema pgtap")
    if connection.execute("select from pg_available_extensions where name = 'pgtap'").rowcount:
        connection.execute("create extension pgtap schema pgtap")
        return
    fetched = subprocess.run([REPOSITORY / "tools/fetch-pgtap"], capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        raise HarnessError(fetched.stderr.strip())
    source = Path(fetched.stdout.strip()).read_text(encoding="utf-8")
    with connection.transaction():
        connection.execute("set local search_path = pgtap, pg_catalog")
        connection.execute(source.encode())
