"""A password is in no repr, no log line and no message of this package."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import logging
import pkgutil
import re
import socket
import threading
import traceback
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

import flowfabric_client
from flowfabric_client import AsyncClient, Client
from flowfabric_client import _calls as calls
from flowfabric_client._listening import Listener, ListenOptions
from flowfabric_client._pools import PoolOptions
from flowfabric_client.cli import cli
from flowfabric_client.commands._engine import Engine
from flowfabric_client.dev import start_server
from flowfabric_client.dev.errors import DevServerError
from flowfabric_client.dev.server import DSN_VARIABLE
from flowfabric_client.errors import FlowFabricError, TransportError
from flowfabric_client.install import InstallError, migrate
from flowfabric_client.install._connection import Session
from flowfabric_client.testing import FlowFabric
from flowfabric_client.worker import Worker
from flowfabric_client.worker.connections import ConnectionOptions

SECRET = "s3cret-word"
UNREACHABLE = f"postgresql://me:{SECRET}@127.0.0.1:1/shop"
# What libpq says about each of these repeats a part of it.
MALFORMED = [f"host=a passwort={SECRET}", SECRET, f"postgresql://me:{SECRET}@[::1/shop"]

_SECRET_NAME = re.compile(r"(^|_)(dsn|conninfo|password|secret|url|params)($|_)")
# They do something when they are imported.
_PROGRAMS = {"flowfabric_client.__main__", "flowfabric_client.demo.jobs"}


def _dataclasses() -> Iterator[type]:
    for found in pkgutil.walk_packages(flowfabric_client.__path__, "flowfabric_client."):
        if found.name in _PROGRAMS:
            continue
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == found.name:
                yield value


def test_no_dataclass_shows_a_connection_string() -> None:
    named = [
        (kind, field)
        for kind in _dataclasses()
        for field in dataclasses.fields(kind)
        if _SECRET_NAME.search(field.name) and "bool" not in str(field.type)
    ]
    assert {(kind.__name__, field.name) for kind, field in named} >= {
        ("PoolOptions", "dsn"),
        ("ListenOptions", "dsn"),
        ("ConnectionOptions", "dsn"),
        ("Options", "dsn"),
        ("Options", "listen_dsn"),
        ("Session", "conninfo"),
    }
    shown = [f"{kind.__qualname__}.{field.name}" for kind, field in named if field.repr]
    assert shown == []


OBJECTS: dict[str, Callable[[], object]] = {
    "PoolOptions": lambda: PoolOptions(UNREACHABLE),
    "ListenOptions": lambda: ListenOptions(UNREACHABLE, 1.0),
    "ConnectionOptions": lambda: ConnectionOptions(UNREACHABLE, "worker", None),
    "Session": lambda: Session(UNREACHABLE, 1000),
    "Worker": lambda: Worker(UNREACHABLE, lanes=["a"]),
    "Client": lambda: Client(UNREACHABLE, listen_dsn=UNREACHABLE),
    "AsyncClient": lambda: AsyncClient(UNREACHABLE),
    "Engine": lambda: Engine(UNREACHABLE, as_json=False),
    "Call": lambda: calls.rotate_waitpoint_hmac_secret("k", new_secret_hex=SECRET),
}


@pytest.mark.parametrize("make", OBJECTS.values(), ids=OBJECTS.keys())
def test_an_object_and_what_it_holds_show_no_password(make: Callable[[], object]) -> None:
    for part in _parts_of(make()):
        assert SECRET not in repr(part)


def _parts_of(root: object) -> Iterator[object]:
    """An object and the objects of this package that it leads to."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, str | bytes):
            continue
        seen.add(id(part))
        yield part
        held = [getattr(part, name, None) for name in getattr(type(part), "__slots__", ())]
        held += vars(part).values() if hasattr(part, "__dict__") else ()
        waiting += [value for value in held if type(value).__module__.startswith("flowfabric_client")]


def test_a_harness_shows_no_password(database: str) -> None:
    with FlowFabric.on(make_conninfo(database, password=SECRET)) as flowfabric:
        assert SECRET not in repr(flowfabric)
        assert SECRET not in repr(flowfabric.client)


@pytest.mark.parametrize("dsn", MALFORMED)
def test_a_string_that_is_none_is_refused_without_repeating_it(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DSN_VARIABLE, dsn)
    attempts: list[Callable[[], object]] = [
        lambda: Client(dsn),
        lambda: AsyncClient(dsn),
        lambda: Client("", listen_dsn=dsn),
        lambda: AsyncClient("", listen_dsn=dsn),
        lambda: Worker(dsn, lanes=["a"]),
        lambda: Worker("", lanes=["a"], listen_dsn=dsn),
        lambda: migrate(dsn),
        start_server,
        lambda: Engine(dsn, as_json=False).connection,
    ]
    for attempt in attempts:
        with pytest.raises(
            (ValueError, InstallError, DevServerError, FlowFabricError),
            match="is not a connection string",
        ) as refusal:
            attempt()
        assert SECRET not in "".join(traceback.format_exception(refusal.value))


@pytest.mark.parametrize(
    "command", ["migrate", "status", "doctor", "top", "tick", "events", "executions list"]
)
def test_a_command_that_cannot_connect_shows_no_password(command: str) -> None:
    for dsn in (UNREACHABLE, *MALFORMED):
        result = CliRunner().invoke(cli, [*command.split(), "--dsn", dsn])
        assert result.exit_code == 4
        assert SECRET not in result.output
        assert result.exc_info is not None
        assert SECRET not in "".join(traceback.format_exception(*result.exc_info))


def test_nothing_that_is_logged_or_raised_while_a_server_is_away_shows_a_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dsn = f"postgresql://me:{SECRET}@127.0.0.1:{unused.getsockname()[1]}/shop"
        shown = []
        with Client(dsn, connect_timeout_s=2) as client, pytest.raises(TransportError) as refusal:
            client.ping()
        shown.append("".join(traceback.format_exception(refusal.value)))
        shown.append(asyncio.run(_ping(dsn)))
        listener = Listener(ListenOptions(dsn, 2.0), lambda *_: True, threading.Event())
        listener.open()
        assert not listener.is_listening
        worker = Worker(dsn, lanes=["a"], max_connections=2)
        worker.handler("a")(lambda _: None)
        asyncio.run(_run_briefly(worker))
    assert "not listening for the moment" in caplog.text
    assert "next try in" in caplog.text
    assert SECRET not in caplog.text
    assert all(SECRET not in text for text in shown)


async def _ping(dsn: str) -> str:
    async with AsyncClient(dsn, connect_timeout_s=2) as client:
        with pytest.raises(TransportError) as refusal:
            await client.ping()
    return "".join(traceback.format_exception(refusal.value))


async def _run_briefly(worker: Worker) -> None:
    run = asyncio.create_task(worker.run())
    await asyncio.wait([run], timeout=3)
    worker.stop()
    run.cancel()
    await asyncio.wait([run])


def test_a_refused_password_is_not_repeated(database: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    dsn = make_conninfo(database, user="nobody_at_all", password=SECRET)
    with (
        Client(dsn, connect_timeout_s=2) as client,
        pytest.raises(TransportError, match="nobody_at_all") as no,
    ):
        client.ping()
    assert SECRET not in "".join(traceback.format_exception(no.value))
    assert SECRET not in caplog.text
