"""Starting a server of our own with programs found on disk."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psycopg
from psycopg import sql

from flowfabric_client.dev.account import Account
from flowfabric_client.dev.binaries import PostgresBinaries, Tree, choose
from flowfabric_client.dev.errors import DevServerError, ServerStartError
from flowfabric_client.dev.home import Home, open_home
from flowfabric_client.dev.server import SUPERUSER, PostgresServer, Request, last_lines, server_url
from flowfabric_client.dev.supervision import Plan, SupervisedProcess

_LOOPBACK = "127.0.0.1"
_SOCKET_PORT = 5432
_START_TIMEOUT_S = 60.0

_RESERVED_SETTINGS = {"data_directory", "listen_addresses", "port", "unix_socket_directories"}

# The server sees nothing of our environment but what it takes to find its libraries and the time zone.
_INHERITED_VARIABLES = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class OwnServer(PostgresServer):
    """A server that never outlives the process that started it."""

    def __init__(
        self,
        provider: str,
        binaries: PostgresBinaries,
        home: Home,
        *,
        process: SupervisedProcess,
        url: Callable[[str], str],
    ) -> None:
        super().__init__(
            provider=provider, version=binaries.version, bin_dir=binaries.bin_dir, data_dir=home.path
        )
        self._log = home.log
        self._process = process
        self._url = url

    def dsn(self, dbname: str = "postgres") -> str:
        return self._url(dbname)

    def stop(self) -> None:
        self._process.end()

    def log_tail(self, lines: int = 20) -> str:
        return _tail(self._log, lines)

    def wait(self) -> None:
        self._process.report()


def start(provider: str, trees: Iterable[Tree], request: Request) -> PostgresServer:
    """Start a server with the first of the installations that suits the request and the data directory."""
    if reserved := _RESERVED_SETTINGS & request.settings.keys():
        raise DevServerError(f"These settings are made by flowfabric itself: {', '.join(sorted(reserved))}.")
    if request.port is not None:
        _require_free(request.port)
    with ExitStack() as undo:
        try:
            home = open_home(request, undo)
            account = home.account()
            binaries = choose(trees, version=_demanded_version(home, request), account=account)
            server = _launch(provider, request, home, account=account, binaries=binaries, undo=undo)
        except OSError as error:
            where = f" in {error.filename}" if error.filename else ""
            raise DevServerError(f"The server cannot be started{where}: {error.strerror}.") from error
        undo.pop_all()
        # From here on the supervisor's copy of the descriptor is the lock.
        os.close(home.lock)
        return server


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_LOOPBACK, port))
        except OSError as error:
            raise DevServerError(f"Port {port} cannot be used: {error.strerror}.") from error


def _demanded_version(home: Home, request: Request) -> int | None:
    if home.version is not None and request.version not in (None, home.version):
        raise DevServerError(
            f"The data directory {home.path} was made by PostgreSQL {home.version}, not {request.version}."
        )
    return request.version or home.version


def _launch(
    provider: str,
    request: Request,
    home: Home,
    *,
    account: Account | None,
    binaries: PostgresBinaries,
    undo: ExitStack,
) -> OwnServer:
    run_dir = home.make_run_dir(account, undo)
    port = request.port or _SOCKET_PORT
    socket_url = partial(server_url, host=str(run_dir), port=port)
    home.start_log(undo)
    initdb = None
    if home.version is None:
        request.on_step(f"creating a data directory of PostgreSQL {binaries.version} in {home.path}")
        home.make_staging(account, undo)
        initdb = _initdb_command(binaries, home)
    request.on_step(f"starting PostgreSQL {binaries.version} ({provider})")
    plan = Plan(
        account=(account.uid, account.gid) if account else None,
        environment=_environment(),
        initdb=initdb,
        postgres=_postgres_command(binaries, home, run_dir, port=port, request=request),
        staging=str(home.staging),
        pgdata=str(home.pgdata),
        remove=_removed_at_end(home, run_dir),
    )
    process = SupervisedProcess(plan, log=home.log, lock=home.lock)
    undo.callback(process.end)
    _await_ready(process, binaries, home)
    if request.port is None:
        return OwnServer(provider, binaries, home, process=process, url=socket_url)
    password = home.password()
    _set_password(socket_url("postgres"), password)

    # Not a `partial`, whose repr shows its arguments.
    def tcp_url(dbname: str) -> str:
        return server_url(dbname, host=_LOOPBACK, port=port, password=password)

    return OwnServer(provider, binaries, home, process=process, url=tcp_url)


def _removed_at_end(home: Home, run_dir: Path) -> list[str]:
    paths = [home.path] if home.throw_away else []
    return [str(path) for path in (paths if run_dir.parent == home.path else [*paths, run_dir])]


def _environment() -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    return {**inherited, "LC_ALL": "C"}


def _initdb_command(binaries: PostgresBinaries, home: Home) -> list[str]:
    return [
        str(binaries.bin_dir / "initdb"),
        f"--pgdata={home.staging}",
        f"--username={SUPERUSER}",
        "--auth-local=trust",
        "--auth-host=scram-sha-256",
        "--encoding=UTF8",
        "--no-locale",
        "--no-instructions",
        *(["--no-sync"] if home.throw_away else []),
    ]


def _postgres_command(
    binaries: PostgresBinaries, home: Home, run_dir: Path, *, port: int, request: Request
) -> list[str]:
    quoted_run_dir = str(run_dir).replace('"', '""')
    settings = {
        **request.settings,
        "listen_addresses": _LOOPBACK if request.port is not None else "",
        "port": str(port),
        # The setting is a list: a comma in an unquoted path would make two of it.
        "unix_socket_directories": f'"{quoted_run_dir}"',
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [str(binaries.bin_dir / "postgres"), "-D", str(home.pgdata), *options]


def _await_ready(process: SupervisedProcess, binaries: PostgresBinaries, home: Home) -> None:
    report = process.report(_START_TIMEOUT_S)
    if report and report[0] == "ready":
        return
    log = _tail(home.log, 20)
    reason = "it takes too long" if report is None else _complaint(log)
    raise ServerStartError(f"PostgreSQL {binaries.version} did not start: {reason}.", log)


def _complaint(log: str) -> str:
    """What the log says is the matter, in the server's words."""
    for line in log.splitlines():
        for mark in ("FATAL:", "PANIC:", "initdb: error:"):
            if mark in line:
                return line.partition(mark)[2].strip().rstrip(".")
    return "its log gives no reason"


def _set_password(dsn: str, password: str) -> None:
    statement = sql.SQL("alter role {} password {}").format(sql.Identifier(SUPERUSER), sql.Literal(password))
    try:
        with psycopg.connect(dsn) as connection:
            connection.execute(statement)
    except psycopg.Error as error:
        raise DevServerError(f"The password for TCP cannot be set: {error}.") from error


def _tail(log: Path, lines: int) -> str:
    try:
        return last_lines(log.read_text(errors="replace"), lines)
    except FileNotFoundError:
        return ""
