"""Provider `env`: a server that somebody else runs, named by FLOWFABRIC_TEST_DSN."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from flowfabric_client._conninfo import failure_reason, require_connection_string
from flowfabric_client.dev.errors import DevServerError, ProviderUnavailableError
from flowfabric_client.dev.server import DSN_VARIABLE, PostgresServer, Request, require_supported

_CONNECT_TIMEOUT_S = 5


class NamedServer(PostgresServer):
    """The server is used as it is: stopping it, or reading its log, is its owner's business."""

    def __init__(self, dsn: str, version: int) -> None:
        super().__init__(provider="env", version=version)
        self._dsn = dsn

    def dsn(self, dbname: str = "postgres") -> str:
        return with_dbname(self._dsn, dbname)

    def stop(self) -> None:
        return

    def log_tail(self, lines: int = 20) -> str:  # noqa: ARG002
        return ""


def start(request: Request) -> PostgresServer:
    dsn = os.environ.get(DSN_VARIABLE)
    if not dsn:
        raise ProviderUnavailableError(f"{DSN_VARIABLE} is not set")
    if request.data_dir is not None or request.port is not None:
        raise ProviderUnavailableError(f"the server of {DSN_VARIABLE} has its own data directory and port")
    version = _server_version(dsn)
    require_supported(version, f"at {DSN_VARIABLE}")
    if request.version not in (None, version):
        raise DevServerError(f"{DSN_VARIABLE} names PostgreSQL {version}, not {request.version}.")
    request.on_step(f"using PostgreSQL {version} of {DSN_VARIABLE}")
    return NamedServer(dsn, version)


def _server_version(dsn: str) -> int:
    try:
        require_connection_string(dsn)
    except ValueError:
        raise DevServerError(
            f"The server of {DSN_VARIABLE} cannot be reached: the value is not a connection string."
        ) from None
    try:
        timeout = conninfo_to_dict(dsn).get("connect_timeout", _CONNECT_TIMEOUT_S)
        with psycopg.connect(dsn, connect_timeout=timeout) as connection:
            return connection.info.server_version // 10000
    except psycopg.Error as error:
        reason = failure_reason(error, dsn)
        raise DevServerError(f"The server of {DSN_VARIABLE} cannot be reached: {reason}.") from error


def with_dbname(dsn: str, dbname: str) -> str:
    """The same connection string for another database; a URL stays a URL."""
    if not dsn.startswith(("postgresql://", "postgres://")):
        return make_conninfo(dsn, dbname=dbname)
    url = urlsplit(dsn)
    options = [(key, value) for key, value in parse_qsl(url.query) if key != "dbname"]
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    return f"{url.scheme}://{url.netloc}/{quote(dbname, safe='')}{query}"
