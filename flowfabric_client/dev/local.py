"""Provider `local`: server programs that are installed on this machine, or named by FLOWFABRIC_PG_BIN."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from flowfabric_client.dev import cluster
from flowfabric_client.dev.account import run_as
from flowfabric_client.dev.binaries import PROGRAMS, Tree
from flowfabric_client.dev.errors import DevServerError, ProviderUnavailableError
from flowfabric_client.dev.server import BIN_VARIABLE, PostgresServer, Request

_USUAL_PLACES = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # the PGDG packages of Red Hat's family
    "/usr/lib/postgresql*/bin",  # SUSE, Alpine
    "/usr/libexec/postgresql*",  # Alpine
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/local/pgsql/bin",  # built from source
)


def start(request: Request) -> PostgresServer:
    named = [Tree.around(directory) for directory in _named_directories()]
    if not named:
        return cluster.start("local", _installed(), request)
    if request.version is not None:
        return cluster.start("local", chain(named, _installed()), request)
    try:
        return cluster.start("local", named, request)
    except ProviderUnavailableError as error:
        # Whoever names the programs wants these and no others.
        raise DevServerError(f"{BIN_VARIABLE} is set, but {error}.") from error


def _named_directories() -> list[Path]:
    """The directories in FLOWFABRIC_PG_BIN: each a `bin` directory or an unpacked archive around one."""
    entries = os.environ.get(BIN_VARIABLE, "").split(os.pathsep)
    return [_programs_in(Path(entry)) for entry in entries if entry]


def _programs_in(named: Path) -> Path:
    for directory in (named, named / "bin", named / "native" / "bin"):
        if _has_programs(directory):
            return directory.absolute()
    raise DevServerError(f"{BIN_VARIABLE} names {named}, which holds no {' and no '.join(PROGRAMS)}.")


def _has_programs(directory: Path) -> bool:
    return all((directory / program).is_file() for program in PROGRAMS)


def _installed() -> Iterator[Tree]:
    """What the PATH means first, then the usual places, newest version first."""
    seen = set()
    for directory in chain(_on_path(), _in_usual_places()):
        if _has_programs(directory) and directory.resolve() not in seen:
            seen.add(directory.resolve())
            yield Tree.around(directory)


def _on_path() -> Iterator[Path]:
    if program := shutil.which("postgres"):
        yield Path(program).resolve().parent
        yield Path(program).parent
    if program := shutil.which("pg_config"):
        yield Path(run_as(None, [program, "--bindir"]).stdout.strip())


def _in_usual_places() -> Iterator[Path]:
    places = [path for pattern in _USUAL_PLACES for path in Path("/").glob(pattern.lstrip("/"))]
    return iter(sorted(places, key=_version_in_name, reverse=True))


def _version_in_name(directory: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(directory))]
