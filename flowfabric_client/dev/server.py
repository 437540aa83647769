"""What every provider hands out, and what it is asked for."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from flowfabric_client.dev.errors import DevServerError

DSN_VARIABLE = "FLOWFABRIC_TEST_DSN"
BIN_VARIABLE = "FLOWFABRIC_PG_BIN"
OLDEST_VERSION = 14
SUPERUSER = "postgres"


@dataclass(frozen=True, slots=True)
class Request:
    """One call of `start_server`, checked and with its defaults filled in."""

    data_dir: Path | None
    keep: bool
    version: int | None
    port: int | None
    settings: Mapping[str, str]
    on_step: Callable[[str], None]

    @property
    def wants_own_directory(self) -> bool:
        return self.keep or self.data_dir is not None


class PostgresServer(ABC):
    """A running Postgres; `stop` it, or use it as a context manager."""

    def __init__(
        self, *, provider: str, version: int, bin_dir: Path | None = None, data_dir: Path | None = None
    ) -> None:
        self.provider = provider
        self.version = version
        self.bin_dir = bin_dir
        self.data_dir = data_dir
        self.passed_over: Mapping[str, str] = {}
        """Providers whose turn came before this one's, and why they did not serve."""

    @abstractmethod
    def dsn(self, dbname: str = "postgres") -> str:
        """The connection string of one of the server's databases, which need not exist yet."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server and wait for its end; a second call does nothing."""

    @abstractmethod
    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's log."""

    def wait(self) -> None:
        """Return when the server has ended without being asked to; for a server of others, never."""
        threading.Event().wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def server_url(dbname: str, *, host: str, port: int, password: str | None = None) -> str:
    """A URL for our superuser; a `host` that is a directory means the unix socket in it."""
    if host.startswith("/"):
        return f"postgresql://{SUPERUSER}@/{quote(dbname, safe='')}?host={quote(host, safe='')}&port={port}"
    secret = f":{quote(password, safe='')}" if password else ""
    return f"postgresql://{SUPERUSER}{secret}@{host}:{port}/{quote(dbname, safe='')}"


def require_supported(version: int, where: str) -> None:
    if version < OLDEST_VERSION:
        raise DevServerError(
            f"PostgreSQL {version} {where} is too old: FlowFabric needs {OLDEST_VERSION} or later."
        )


def last_lines(text: str, lines: int) -> str:
    return "\n".join(text.splitlines()[-lines:]) if lines > 0 else ""
