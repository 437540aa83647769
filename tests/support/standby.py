"""A hot standby of a test server: a base backup of it that follows its WAL."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import psycopg
from psycopg.conninfo import conninfo_to_dict

from flowfabric_client.dev import PostgresServer, ProviderName, start_server
from flowfabric_client.dev.account import hand_over, run_as, server_account
from tests.support.cluster import Cluster, HarnessError
from tests.support.concurrency import wait_until


class Standby:
    """A server that replays what its primary writes, and lets nothing else be written."""

    def __init__(self, server: PostgresServer, primary: Cluster) -> None:
        self._server = server
        self._primary = primary

    def dsn(self, dbname: str) -> str:
        """A connection string for one database of the standby, as superuser."""
        return self._server.dsn(dbname)

    def catch_up(self) -> None:
        """Wait until everything that the primary has committed is visible here."""
        with psycopg.connect(self._primary.dsn(), autocommit=True) as primary:
            # Commits need not have been flushed; this one is, and with it all before it.
            primary.execute("set synchronous_commit = local")
            row = primary.execute("select pg_logical_emit_message(true, 'flowfabric', 'tests')").fetchone()
            assert row is not None
            position = row[0]
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as here:

            def has_replayed() -> bool:
                found = here.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", [position]).fetchone()
                return found is not None and bool(found[0])

            wait_until(has_replayed, "the standby catches up")


@contextmanager
def standby_of(primary: Cluster) -> Iterator[Standby]:
    """Start a standby of a server that runs from local binaries."""
    if primary.bin_dir is None:
        raise HarnessError("A standby needs the programs of the server.")
    source = conninfo_to_dict(primary.dsn())
    home = Path(tempfile.mkdtemp(prefix="flowfabric-", dir=Path(str(source["host"])).parents[1]))
    try:
        home.chmod(0o711)
        pgdata = home / "pgdata"
        pgdata.mkdir(mode=0o700)
        account = server_account(None)
        hand_over(account, pgdata)
        backup = run_as(
            account,
            [
                primary.bin_dir / "pg_basebackup",
                f"--host={source['host']}",
                f"--port={source['port']}",
                f"--username={source['user']}",
                f"--pgdata={pgdata}",
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ],
        )
        if backup.returncode != 0:
            raise HarnessError(backup.stderr.strip())
        with start_server(
            provider=cast(ProviderName, primary.server.provider),
            version=primary.version,
            data_dir=home,
            settings={"fsync": "off", "max_connections": "200", "log_min_messages": "fatal"},
        ) as server:
            yield Standby(server, primary)
    finally:
        shutil.rmtree(home)
