"""Runs the pgTAP suite, or parts of it, with pg_prove: tools/run_pg_prove.py DSN [PATH ...]

pg_prove takes the name of a database, but no connection string: it cuts it at the second `=`. The environment
variables of libpq say the same. What to run, and how to find it, is in .proverc.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import psycopg
from psycopg.pq import Conninfo


def main() -> None:
    if len(sys.argv) < 2 or not sys.argv[1]:
        sys.exit(
            "name a database: make pgtap DSN=postgresql://... (FlowFabric, its test clock and pgTAP), or "
            "make dba-check DSN=postgresql://... (FlowFabric)"
        )
    pg_prove = shutil.which("pg_prove")
    if pg_prove is None:
        sys.exit(
            "pg_prove was not found: install it "
            "(sudo apt-get install -y libtap-parser-sourcehandler-pgtap-perl)."
        )
    try:
        options = Conninfo.parse(sys.argv[1].encode())
    except psycopg.OperationalError as error:
        sys.exit(f"that is no connection string: {str(error).strip()}")
    for option in options:
        if option.val is not None and option.envvar is not None:
            os.environ[option.envvar.decode()] = option.val.decode()
    os.chdir(Path(__file__).resolve().parent.parent)
    paths = sys.argv[2:] or ["pgtap/"]
    os.execv(pg_prove, [pg_prove, *paths])  # noqa: S606 - the program that was found just now, without a shell


if __name__ == "__main__":
    main()
