"""Databases that cannot be reached or written to: one sentence, without the password."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from psycopg.conninfo import make_conninfo

from flowfabric_client.install import InstallError, migrate, status
from tests.install.sample import SampleEngine
from tests.install.test_migrate import READ_ONLY, execute


def refusal(dsn: str) -> str:
    with pytest.raises(InstallError) as failure:
        migrate(dsn)
    with pytest.raises(InstallError, match=r".") as same:
        status(dsn)
    assert str(same.value) == str(failure.value)
    message = str(failure.value)
    assert "\n" not in message
    assert "s3cret" not in message
    return message


def test_a_server_that_does_not_answer() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        message = refusal(f"postgresql://me:s3cret@127.0.0.1:{port}/shop")
    assert message.startswith(f"Cannot connect to host=127.0.0.1 port={port} user=me dbname=shop: ")
    assert "refused" in message


def test_a_host_that_cannot_be_found() -> None:
    message = refusal("postgresql://me:s3cret@no-such-host.invalid/shop")
    assert message.startswith("Cannot connect to host=no-such-host.invalid user=me dbname=shop: ")


def test_a_socket_that_does_not_exist() -> None:
    assert refusal("host=/nonexistent password=s3cret").startswith("Cannot connect to host=/nonexistent: ")


def test_a_database_that_does_not_exist(empty_database: str) -> None:
    message = refusal(make_conninfo(empty_database, dbname="no_such_database", password="s3cret"))
    assert 'database "no_such_database" does not exist' in message


def test_a_role_that_does_not_exist(empty_database: str) -> None:
    message = refusal(make_conninfo(empty_database, user="no_such_role", password="s3cret"))
    assert "no_such_role" in message


@pytest.mark.parametrize("dsn", ["postgresql://me:s3cret@[::1/shop", "s3cret", "host=a passwort=s3cret"])
def test_a_dsn_that_is_none(dsn: str) -> None:
    assert refusal(dsn).startswith("The DSN is not a connection string")


def test_a_server_that_is_too_old() -> None:
    with server_of_version("13.14") as port:
        message = refusal(
            f"host=127.0.0.1 port={port} user=me dbname=shop sslmode=disable gssencmode=disable"
        )
    assert message == "FlowFabric needs PostgreSQL 14 or later; this server is 13.14."


@contextmanager
def server_of_version(version: str) -> Iterator[int]:
    """A server that lets everybody in, says its version, and knows nothing else of Postgres."""

    def message(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack("!i", len(body) + 4) + body

    greeting = (
        message(b"R", struct.pack("!i", 0))
        + b"".join(
            message(b"S", f"{name}\0{value}\0".encode())
            for name, value in {"server_version": version, "client_encoding": "UTF8"}.items()
        )
        + message(b"Z", b"I")
    )

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                client.recv(65536)
                client.sendall(greeting)
                while client.recv(65536):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_database_in_another_encoding(empty_database: str) -> None:
    execute(
        empty_database,
        "create database latin encoding 'LATIN1' locale 'C' template template0",
    )
    try:
        message = refusal(make_conninfo(empty_database, dbname="latin"))
        assert message == "FlowFabric needs a database in UTF8; this one is in LATIN1."
    finally:
        execute(empty_database, "drop database latin with (force)")


def test_a_read_only_connection(empty_database: str, engine: SampleEngine) -> None:
    with pytest.raises(InstallError, match=r"^This connection is read-only"):
        migrate(make_conninfo(empty_database, options=READ_ONLY), sources=engine.sources)
