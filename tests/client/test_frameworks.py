"""Inside the transactions of SQLAlchemy and Django: their commit is ours, and so is their rollback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import django
import psycopg
import pytest
from django.conf import settings
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from flowfabric_client import AsyncClient, Client, errors

UNKNOWN = "{fp:86}:00000000-0000-4000-8000-0000000000ff"


def url(database: str) -> URL:
    given = conninfo_to_dict(database)
    return URL.create(
        "postgresql+psycopg",
        username=str(given["user"]),
        password=given.get("password"),  # type: ignore[arg-type]
        database=str(given["dbname"]),
        query={"host": str(given["host"]), "port": str(given["port"])},
    )


# SQLAlchemy


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    engine = create_engine(url(database), poolclass=NullPool)
    with Session(engine) as session:
        session.execute(text("create table orders (id int)"))
        session.commit()
        yield session


def client_in(session: Session) -> Client:
    """As docs/client.md shows it."""
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return Client(connection)


def orders(client: Client) -> int:
    with client.transaction() as tx:
        return tx.connection.execute("select from orders").rowcount


def test_sqlalchemys_commit_keeps_both_and_its_rollback_neither(session: Session, client: Client) -> None:
    session.execute(text("insert into orders values (1)"))
    dropped = client_in(session).create_execution("ship", payload=b"\x00", tags={"app.order": "1"})
    session.rollback()
    assert client.read_execution_state(dropped.execution_id) is None

    session.execute(text("insert into orders values (2)"))
    kept = client_in(session).create_execution("ship", payload=b"\x00", tags={"app.order": "2"})
    assert client.read_execution_state(kept.execution_id) is None, (
        "nothing is committed before SQLAlchemy does"
    )
    session.commit()
    assert client.read_execution_state(kept.execution_id) == "waiting"
    assert orders(client) == 1


def test_a_refusal_can_be_caught_inside_sqlalchemys_savepoint(session: Session, client: Client) -> None:
    session.execute(text("insert into orders values (1)"))
    with pytest.raises(errors.ExecutionNotFoundError) as refused, session.begin_nested():
        client_in(session).complete_execution(UNKNOWN)
    assert refused.value.details["execution_id"] == UNKNOWN
    session.commit()
    assert orders(client) == 1


def test_rows_read_through_sqlalchemys_connection_are_the_same(session: Session, client: Client) -> None:
    execution_id = client.create_execution("test", tags={"app.x": "1"}).execution_id
    client.change_priority(execution_id, 3)
    inside = client_in(session)
    assert inside.describe_execution(execution_id) == client.describe_execution(execution_id)
    details = inside.read_events("operator", "v1:0:0:0")[0].details
    assert details is not None
    assert (details["old_priority"], details["new_priority"]) == (0, 3)


def test_an_async_session_of_sqlalchemy(database: str, client: Client) -> None:
    async def create(*, commit: bool) -> str:
        engine = create_async_engine(url(database), poolclass=NullPool)
        async with AsyncSession(engine) as session:
            raw = await (await session.connection()).get_raw_connection()
            connection = raw.driver_connection
            assert isinstance(connection, psycopg.AsyncConnection)
            inside = AsyncClient(connection)
            created = await inside.create_execution("ship")
            with pytest.raises(errors.ExecutionNotFoundError):
                async with inside.transaction():
                    await inside.complete_execution(UNKNOWN)
            await (session.commit() if commit else session.rollback())
            return created.execution_id

    assert client.read_execution_state(asyncio.run(create(commit=True))) == "waiting"
    assert client.read_execution_state(asyncio.run(create(commit=False))) is None


# Django

# An alias of our own: another test of the process may have configured Django too.
ALIAS = "flowfabric_client_test"


@contextmanager
def django_database(database: str, **options: Any) -> Iterator[BaseDatabaseWrapper]:
    given = conninfo_to_dict(database)
    if not settings.configured:
        settings.configure(USE_TZ=True, DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}})
        django.setup()
    connections.databases[ALIAS] = connections.databases["default"] | {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given["user"],
        "PASSWORD": given.get("password", ""),
        "HOST": given["host"],
        "PORT": given["port"],
        "OPTIONS": options,
    }
    wrapper = connections[ALIAS]
    with wrapper.cursor() as cursor:
        cursor.execute("create table orders (id int)")
    try:
        yield wrapper
    finally:
        wrapper.close()
        del connections[ALIAS], connections.databases[ALIAS]


@pytest.fixture(params=[False, True], ids=["client-side binding", "server-side binding"])
def django_connection(request: pytest.FixtureRequest, database: str) -> Iterator[BaseDatabaseWrapper]:
    with django_database(database, server_side_binding=request.param) as wrapper:
        yield wrapper


def insert_and_create(wrapper: BaseDatabaseWrapper, *, roll_back: bool) -> str:
    with transaction.atomic(using=ALIAS):
        with wrapper.cursor() as cursor:
            cursor.execute("insert into orders values (1)")
        created = Client(wrapper.connection).create_execution("ship", payload=b"\x00")
        transaction.set_rollback(roll_back, using=ALIAS)
    return created.execution_id


def test_djangos_commit_keeps_both_and_its_rollback_neither(
    django_connection: BaseDatabaseWrapper, client: Client
) -> None:
    assert client.read_execution_state(insert_and_create(django_connection, roll_back=True)) is None
    assert client.read_execution_state(insert_and_create(django_connection, roll_back=False)) == "waiting"
    assert orders(client) == 1


def test_a_refusal_can_be_caught_inside_djangos_savepoint(
    django_connection: BaseDatabaseWrapper, client: Client
) -> None:
    with transaction.atomic(using=ALIAS):
        with django_connection.cursor() as cursor:
            cursor.execute("insert into orders values (1)")
        with pytest.raises(errors.ExecutionNotFoundError) as refused, transaction.atomic(using=ALIAS):
            Client(django_connection.connection).complete_execution(UNKNOWN)
    assert refused.value.details["execution_id"] == UNKNOWN
    assert orders(client) == 1


def test_rows_read_through_djangos_connection_are_the_same(
    django_connection: BaseDatabaseWrapper, client: Client
) -> None:
    """Django reads JSON as text, and binds parameters in the client."""
    execution_id = client.create_execution("test", tags={"app.x": "1"}).execution_id
    client.change_priority(execution_id, 3)
    django_connection.ensure_connection()
    inside = Client(django_connection.connection)
    assert inside.describe_execution(execution_id) == client.describe_execution(execution_id)
    details = inside.read_events("operator", "v1:0:0:0")[0].details
    assert details is not None
    assert (details["old_priority"], details["new_priority"]) == (0, 3)
    batch = inside.create_executions(["a", "b"], payloads=[b"\x00", None], tags=[{"app.x": "1"}, None])
    assert [item.outcome for item in batch] == ["created", "created"]


def test_outside_of_atomic_each_call_is_committed(
    django_connection: BaseDatabaseWrapper, client: Client
) -> None:
    django_connection.ensure_connection()
    created = Client(django_connection.connection).create_execution("ship")
    assert client.read_execution_state(created.execution_id) == "waiting"
