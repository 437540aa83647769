"""Dumps and what is made of them, with Postgres's own programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster import Cluster


def dump(server: Cluster, dsn: str, path: Path) -> Path:
    """Dump a database, in the format that pg_restore reads."""
    done = _run(server, "pg_dump", "--format=custom", f"--file={path}", f"--dbname={dsn}")
    assert (done.returncode, done.stderr) == (0, "")
    return path


def restore(server: Cluster, path: Path, dsn: str) -> list[str]:
    """Restore a dump into an empty database; return the errors that pg_restore reported and passed over."""
    done = _run(server, "pg_restore", f"--dbname={dsn}", str(path))
    errors = re.findall(r"^pg_restore: error: .*ERROR:  (.*)$", done.stderr, re.MULTILINE)
    assert (done.returncode == 0) == (not errors), done.stderr
    return errors


def _run(server: Cluster, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    command = [str(_find(server, program)), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _find(server: Cluster, program: str) -> Path:
    """The server's own program, else one on PATH; pg_dump refuses servers that are newer than itself."""
    own = server.bin_dir / program if server.bin_dir is not None else None
    if own is not None and own.exists():
        return own
    on_path = shutil.which(program)
    if on_path is not None:
        version = subprocess.run([on_path, "--version"], capture_output=True, text=True, check=True).stdout
        if int(re.findall(r"\d+", version)[0]) >= server.version:
            return Path(on_path)
    pytest.skip(f"there is no {program} for PostgreSQL {server.version}")
