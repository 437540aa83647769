"""Provider `container`: a throw-away server in a container, if a Docker daemon answers.

testcontainers gives the container to its reaper, which removes it after this process has died, however it
died. Its import and its first call are slow and patient, so the daemon is asked first.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg

from flowfabric_client.dev.errors import ProviderUnavailableError, ServerStartError
from flowfabric_client.dev.server import BIN_VARIABLE, PostgresServer, Request, last_lines, server_url

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

DEFAULT_VERSION = 18
_PING_TIMEOUT_S = 0.5
_START_TIMEOUT_S = 60
_PORT = 5432


class ContainerServer(PostgresServer):
    def __init__(self, container: DockerContainer, version: int, password: str) -> None:
        super().__init__(provider="container", version=version)
        self._container = container
        self._password = password
        self._host: str = container.get_container_host_ip()
        self._port = int(container.get_exposed_port(_PORT))
        self._stopped = False

    def dsn(self, dbname: str = "postgres") -> str:
        return server_url(dbname, host=self._host, port=self._port, password=self._password)

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self._container.stop()

    def log_tail(self, lines: int = 20) -> str:
        output, errors = self._container.get_logs()
        return last_lines((output + errors).decode(errors="replace"), lines)


def start(request: Request) -> PostgresServer:
    if request.wants_own_directory or request.port is not None:
        raise ProviderUnavailableError("a container is for throw-away servers on a port of its own choice")
    if os.environ.get(BIN_VARIABLE):
        raise ProviderUnavailableError(f"{BIN_VARIABLE} names server programs to be used instead")
    host = _answering_daemon()
    try:
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - slow, see above
    except ImportError as error:
        raise ProviderUnavailableError("the package testcontainers is not installed") from error
    os.environ.setdefault("DOCKER_HOST", host)

    version = request.version or DEFAULT_VERSION
    password = secrets.token_urlsafe(18)
    options = [word for name, value in request.settings.items() for word in ("-c", f"{name}={value}")]
    container = (
        DockerContainer(f"postgres:{version}")
        .with_env("POSTGRES_PASSWORD", password)
        .with_env("POSTGRES_INITDB_ARGS", "--encoding=UTF8 --no-locale")
        .with_exposed_ports(_PORT)
        .with_command(["postgres", *options])
    )
    request.on_step(f"starting PostgreSQL {version} in a container")
    try:
        container.start()
    except Exception as error:
        # The client library's errors have no common base; an image that cannot be had is the usual one.
        container.stop()
        reason = str(error).strip().partition("\n")[0]
        raise ProviderUnavailableError(
            f"no container of PostgreSQL {version} can be had: {reason}"
        ) from error
    try:
        server = ContainerServer(container, version, password)
        _wait_until_ready(server)
    except BaseException:
        container.stop()
        raise
    return server


def _wait_until_ready(server: ContainerServer) -> None:
    # The image serves its first initialisation on the unix socket only: an answer over TCP is the real one.
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            psycopg.connect(server.dsn(), connect_timeout=2).close()
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                sentence = f"PostgreSQL {server.version} in the container did not start."
                raise ServerStartError(sentence, server.log_tail()) from error
            time.sleep(0.1)
        else:
            return


def _answering_daemon() -> str:
    """The address, as DOCKER_HOST has it, of a daemon that answers a ping at once."""
    given = os.environ.get("DOCKER_HOST")
    for host in [given] if given else _usual_addresses():
        if _answers(host):
            return host
    raise ProviderUnavailableError("no Docker daemon answers")


def _usual_addresses() -> list[str]:
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR")
    rootless = [Path(runtime_dir) / "docker.sock"] if runtime_dir else []
    sockets = [Path("/var/run/docker.sock"), *rootless, Path.home() / ".docker/run/docker.sock"]
    return [f"unix://{path}" for path in sockets if path.exists()]


def _answers(host: str) -> bool:
    url = urlsplit(host)
    try:
        with _connect(url.scheme, url.path, url.hostname, url.port) as connection:
            if os.environ.get("DOCKER_TLS_VERIFY") or url.scheme == "https":
                return True
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except (OSError, ValueError):
        return False


def _connect(scheme: str, path: str, hostname: str | None, port: int | None) -> socket.socket:
    if scheme == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_PING_TIMEOUT_S)
        try:
            connection.connect(path)
        except BaseException:
            connection.close()
            raise
        return connection
    if scheme in ("tcp", "http", "https") and hostname:
        return socket.create_connection((hostname, port or 2375), timeout=_PING_TIMEOUT_S)
    raise ValueError(f"no quick way to ask a daemon over {scheme}")
