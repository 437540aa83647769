"""Runs dba/zombies.sql: tools/run_zombies.py [DSN]

On the database that the DSN names, as the owner of the installation or a superuser; without one, on a private
server that is made for it and removed afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from flowfabric_client.dev import DevServerError, start_server
from flowfabric_client.install import InstallError, migrate

SCRIPT = Path(__file__).resolve().parent.parent / "dba/zombies.sql"


def run(psql: str, dsn: str) -> int:
    command = [psql, "--no-psqlrc", "--quiet", f"--file={SCRIPT}", f"--dbname={dsn}"]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - the program that was found, without a shell


def main() -> None:
    dsn = sys.argv[1] if len(sys.argv) > 1 else ""
    psql = shutil.which("psql")
    if dsn and psql is None:
        sys.exit(
            "zombies: psql was not found: install it (on Debian: sudo apt-get install -y postgresql-client)."
        )
    if dsn:
        sys.exit(run(str(psql), dsn))
    try:
        # A directory of its own, so that nothing is installed in a server that the environment names.
        home = Path(tempfile.gettempdir()) / f"flowfabric-zombies-{os.getpid()}"
        with start_server(data_dir=home, keep=False) as server:
            migrate(server.dsn())
            own = server.bin_dir / "psql" if server.bin_dir else None
            if own is not None and own.exists():
                psql = str(own)
            if psql is None:
                sys.exit("zombies: psql was not found: install it, or name a database with DSN=...")
            sys.exit(run(psql, server.dsn()))
    except (DevServerError, InstallError) as error:
        sys.exit(f"zombies: {error}")


if __name__ == "__main__":
    main()
