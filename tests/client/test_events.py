"""Following events: at least once, from a position that outlives connections and programs."""

from __future__ import annotations

import asyncio
from typing import Any, get_args, get_type_hints
from uuid import UUID

import pytest

from flowfabric_client import AsyncClient, Client, errors, events, rows
from flowfabric_client.events import CompletionEvent
from tests.client.support import Follower, Kind, claimed, complete_one, listeners, outage, sessions, waiters
from tests.conftest import Connect
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import in_background, wait_until

FAST: dict[str, Any] = {"poll_interval_s": 0.1}


def ids(delivered: list[CompletionEvent]) -> list[str]:
    return [event.execution_id for event in delivered]


def drained(client: Client, **options: Any) -> list[str]:
    return ids(list(client.events("completion", timeout_s=0, **options)))


# What is delivered


def test_events_are_delivered_as_they_happen(kind: Kind, client: Client, database: str) -> None:
    before = complete_one(client)
    follower = Follower(kind, database, lambda c: c.events("completion", start="start", **FAST))
    follower.wait_for(1)
    later = [complete_one(client) for _ in range(3)]
    assert ids(follower.wait_for(4)) == [before, *later]
    follower.stop()


def test_by_default_only_what_happens_from_now_on(kind: Kind, client: Client, database: str) -> None:
    complete_one(client)
    follower = Follower(kind, database, lambda c: c.events("completion", consumer="me", **FAST))
    wait_until(lambda: bool(client.event_lag(stream="completion")[0].consumers), "the consumer was there")
    later = complete_one(client)
    assert ids(follower.wait_for(1)) == [later]
    follower.stop()


def test_what_is_there_is_read_and_no_more(client: Client) -> None:
    completed = [complete_one(client) for _ in range(5)]
    assert drained(client, start="start", page_size=2) == completed
    first, *_ = client.events("completion", start="start", timeout_s=0)
    assert drained(client, start=first.cursor) == completed[1:]
    assert drained(client, start="start", execution_id=completed[3]) == [completed[3]]
    assert drained(client, start="start", event_types=("failed",)) == []


def test_every_stream_has_its_own_class(client: Client) -> None:
    handle = claimed(client)
    client.delay_execution(**handle.arguments(), delay_until_ms=client.now_ms() + 60_000)
    client.register_worker("w", "w-1", lanes=["default"])
    client.change_priority(client.create_execution("test").execution_id, 7)
    complete_one(client)

    def read(stream: Any) -> list[Any]:
        return list(client.events(stream, start="start", timeout_s=0))

    (completion,) = read("completion")
    assert (completion.outcome, completion.attempt_index) == ("success", 0)
    leases = read("lease")
    assert [lease.event_type for lease in leases] == ["acquired", "released", "acquired", "released"]
    assert leases[0].lease_id == handle.lease_id
    (worker,) = read("worker")
    assert (worker.event_type, worker.worker_instance_id) == ("registered", "w-1")
    (operator,) = read("operator")
    assert (operator.event_type, operator.details["new_priority"]) == ("priority_changed", 7)
    assert read("signal") == []


def test_a_signal_event_says_what_the_signal_did(client: Client) -> None:
    client.seed_waitpoint_hmac_secret("k1", secret_hex="ab" * 32)
    handle = claimed(client)
    waitpoint = client.create_pending_waitpoint(**handle.arguments(), waitpoint_key="w", expires_in_ms=60_000)
    client.buffer_signal_for_pending_waitpoint(
        handle.execution_id,
        waitpoint.waitpoint_id,
        waitpoint.waitpoint_token,
        "done",
        signal_id=UUID(int=5),
    )
    (signal,) = client.events("signal", start="start", timeout_s=0)
    assert isinstance(signal, events.SignalEvent)
    assert (signal.signal_id, signal.signal_name, signal.waitpoint_id) == (
        UUID(int=5),
        "done",
        waitpoint.waitpoint_id,
    )


TABLES = {
    "completion": "ff_completion_event",
    "lease": "ff_lease_event",
    "signal": "ff_signal_event",
    "operator": "ff_operator_event",
    "worker": "ff_worker_registry_event",
}


@pytest.mark.parametrize("stream", TABLES)
def test_the_fields_of_an_event_are_those_of_its_table(db: Connection, stream: str) -> None:
    columns = {
        {"event_kind": "event_type"}.get(name, name): not_null
        for name, not_null in db.execute(
            """select attname, attnotnull from pg_attribute
               where attrelid = ('flowfabric.' || %s)::regclass and attnum > 0 and not attisdropped
                   and attname not in ('epoch', 'xact_id')""",
            [TABLES[stream]],
        ).fetchall()
    }
    hints = get_type_hints(events.EVENT_CLASSES[stream])
    del hints["stream"], hints["cursor"]
    assert {name: type(None) not in get_args(hint) for name, hint in hints.items()} == columns


def test_every_field_of_a_row_belongs_to_some_event() -> None:
    fields = {name for cls in events.EVENT_CLASSES.values() for name in get_type_hints(cls)}
    assert fields == set(get_type_hints(rows.Event)) - {"more"}


def test_what_the_database_refuses_is_refused_at_once(client: Client) -> None:
    with pytest.raises(errors.InvalidInputError):
        list(client.events("nonsense", timeout_s=5))  # type: ignore[call-overload]
    with pytest.raises(errors.InvalidOffsetError):
        list(client.events("completion", start="yesterday", timeout_s=5))
    with pytest.raises(ValueError, match="poll_interval_s must be positive"):
        client.events("completion", poll_interval_s=0)
    with pytest.raises(TypeError):
        client.events("completion", from_="start")  # type: ignore[call-overload]


def test_nobody_follows_inside_a_transaction(client: Client, connect: Connect) -> None:
    with client.transaction() as tx, pytest.raises(RuntimeError, match="inside a transaction"):
        tx.events("completion")
    with pytest.raises(RuntimeError, match="inside a transaction"):
        Client(connect(autocommit=False)).events("completion")
    completed = complete_one(client)
    assert drained(Client(connect()), start="start") == [completed]


# Positions that are kept


def test_a_consumer_goes_on_behind_what_it_has_dealt_with(client: Client) -> None:
    completed = [complete_one(client) for _ in range(4)]
    for event in client.events("completion", consumer="me", start="start"):
        if event.execution_id == completed[2]:
            break
    # The loop was left while it dealt with the third event.
    assert drained(client, consumer="me") == completed[2:]
    assert drained(client, consumer="me") == []
    assert drained(client, consumer="you", start="start") == completed


def test_only_what_was_acknowledged_is_not_repeated(kind: Kind, client: Client, database: str) -> None:
    completed = [complete_one(client) for _ in range(4)]
    options: dict[str, Any] = {"consumer": "me", "start": "start", "auto_acknowledge": False}

    async def two_of_four() -> None:
        async with AsyncClient(database) as c, c.events("completion", timeout_s=0, **options) as subscription:
            async for event in subscription:
                if event.execution_id == completed[1]:
                    await subscription.acknowledge()

    if kind == "async":
        asyncio.run(two_of_four())
    else:
        with client.events("completion", timeout_s=0, **options) as subscription:
            for event in subscription:
                if event.execution_id == completed[1]:
                    subscription.acknowledge()
    assert drained(client, **options) == completed[2:]


def test_without_a_consumer_nothing_can_be_acknowledged(client: Client) -> None:
    with client.events("completion") as subscription, pytest.raises(RuntimeError, match="named consumer"):
        subscription.acknowledge()


def test_a_new_consumer_misses_nothing_between_its_first_two_starts(client: Client) -> None:
    assert drained(client, consumer="me") == []
    completed = complete_one(client)
    assert drained(client, consumer="me") == [completed]


def test_an_effect_and_the_position_can_be_one_transaction(client: Client, db: Connection) -> None:
    db.execute("create table effect (execution_id text)")
    completed = [complete_one(client) for _ in range(3)]

    def work(*, break_off: bool) -> None:
        for event in client.events("completion", consumer="me", start="start", timeout_s=0):
            with client.transaction() as tx:
                tx.connection.execute("insert into effect values (%s)", [event.execution_id])
                tx.commit_event_cursor("me", "completion", event.cursor)
                if break_off and event.execution_id == completed[1]:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work(break_off=True)
    work(break_off=False)
    assert [x for (x,) in db.execute("select execution_id from effect").fetchall()] == completed


def test_a_position_that_was_pruned_is_an_error_that_names_the_oldest(client: Client, clock: Any) -> None:
    first = complete_one(client)
    (event,) = client.events("completion", start="start", timeout_s=0)
    assert event.execution_id == first
    cursor = client.event_position("completion")
    complete_one(client)
    clock.advance(8 * 86_400_000)
    client.prune_events()
    kept = complete_one(client)
    with pytest.raises(errors.EventCursorExpiredError) as refused:
        drained(client, start=cursor)
    assert drained(client, start=refused.value.details["oldest_cursor"]) == [kept]


# Waking, polling, stopping


@pytest.mark.usefixtures("no_polling")
def test_a_follower_that_waits_is_notified(kind: Kind, client: Client, database: str, db: Connection) -> None:
    follower = Follower(kind, database, lambda c: c.events("completion", poll_interval_s=300))
    wait_until(lambda: waiters(db) == 1, "the follower waited")
    completed = complete_one(client)
    assert ids(follower.wait_for(1)) == [completed]
    follower.stop()
    assert waiters(db) == 0, "the follower withdrew"


def test_without_listening_it_polls(kind: Kind, client: Client, database: str, db: Connection) -> None:
    follower = Follower(kind, database, lambda c: c.events("completion", start="start", listen=False, **FAST))
    completed = [complete_one(client)]
    follower.wait_for(1)
    completed.append(complete_one(client))
    assert ids(follower.wait_for(2)) == completed
    assert (waiters(db), listeners(db)) == (0, 0)
    follower.stop()


def test_a_place_to_listen_at_that_is_not_there_only_costs_time(
    kind: Kind, client: Client, database: str, db: Connection
) -> None:
    follower = Follower(
        kind,
        database,
        lambda c: c.events("completion", start="start", **FAST),
        listen_dsn="host=/nowhere",
    )
    completed = complete_one(client)
    assert ids(follower.wait_for(1)) == [completed]
    assert waiters(db) == 0, "nobody would hear a notification"
    follower.stop()


def test_an_uncommitted_event_is_neither_delivered_nor_skipped(
    kind: Kind, client: Client, database: str, connect: Connect, db: Connection
) -> None:
    first = claimed(client)
    late = Client(connect(autocommit=False))
    late.complete_execution(**first.arguments())
    follower = Follower(kind, database, lambda c: c.events("completion", start="start", **FAST))
    second = complete_one(client)
    wait_until(lambda: waiters(db) == 1, "the follower had looked")
    assert follower.items == []
    late.connection.commit()
    assert ids(follower.wait_for(2)) == [first.execution_id, second]
    follower.stop()


def test_a_loop_that_is_left_leaves_nothing(client: Client, db: Connection) -> None:
    client.ping()
    before = sessions(db)
    complete_one(client)
    for _ in client.events("completion", start="start"):
        assert listeners(db) == 1
        break
    wait_until(lambda: sessions(db) == before, "the connection that listened was closed")
    assert waiters(db) == 0


def test_an_async_loop_that_is_left_leaves_nothing(client: Client, database: str, db: Connection) -> None:
    complete_one(client)

    async def look_at_one() -> None:
        async with AsyncClient(database) as c:
            async for _ in c.events("completion", start="start"):
                break

    asyncio.run(look_at_one())
    client.close()
    wait_until(lambda: sessions(db) == 0, "every connection was closed")
    assert waiters(db) == 0


def test_an_async_loop_can_be_cancelled(database: str, db: Connection) -> None:
    async def cancel_a_waiting_loop() -> None:
        async with AsyncClient(database) as c:

            async def follow() -> None:
                async for _ in c.events("completion", poll_interval_s=300):
                    pass

            following = asyncio.create_task(follow())
            while not await asyncio.to_thread(waiters, db):
                await asyncio.sleep(0.01)
            following.cancel()
            with pytest.raises(asyncio.CancelledError):
                await following

    asyncio.run(asyncio.wait_for(cancel_a_waiting_loop(), 20))
    wait_until(lambda: sessions(db) == 0, "every connection was closed")
    assert waiters(db) == 0


@pytest.mark.usefixtures("no_polling")
def test_async_followers_share_one_listening_connection(
    database: str, client: Client, db: Connection
) -> None:
    async def follow_three_times() -> None:
        async with AsyncClient(database) as c:

            async def one() -> str:
                async for event in c.events("completion", poll_interval_s=300):
                    return event.execution_id
                raise AssertionError("unreachable")

            following = [asyncio.create_task(one()) for _ in range(3)]
            while await asyncio.to_thread(waiters, db) < 3:
                await asyncio.sleep(0.01)
            assert await asyncio.to_thread(listeners, db) == 1
            completed = await asyncio.to_thread(complete_one, client)
            assert await asyncio.gather(*following) == [completed] * 3

    asyncio.run(asyncio.wait_for(follow_three_times(), 20))


def test_a_subscription_without_a_loop_costs_nothing(client: Client, db: Connection) -> None:
    client.ping()
    before = sessions(db)
    with client.events("completion", consumer="me"):
        pass
    assert (sessions(db), waiters(db)) == (before, 0)
    assert client.event_lag(stream="completion")[0].consumers == []


# Lost connections


def test_an_outage_neither_skips_nor_repeats(
    kind: Kind, server: Cluster, database: str, connect: Connect
) -> None:
    with Client(database) as client:
        before = [complete_one(client) for _ in range(3)]
        follower = Follower(
            kind, database, lambda c: c.events("completion", start="start", consumer="me", **FAST)
        )
        follower.wait_for(3)
    with outage(server, database):
        pass
    with Client(database) as client:
        during = [complete_one(client) for _ in range(3)]
        assert ids(follower.wait_for(6)) == before + during
        db = connect()
        wait_until(lambda: listeners(db) == 1 and waiters(db) == 1, "it listens again")
        last = complete_one(client)
        assert ids(follower.wait_for(7)) == [*before, *during, last]
        follower.stop()
        assert drained(client, consumer="me") in ([], [last])


def test_a_timeout_during_an_outage_tells_where_to_go_on(server: Cluster, database: str) -> None:
    with Client(database, connect_timeout_s=0.2) as client:
        first = complete_one(client)
        loop = iter(client.events("completion", start="start", timeout_s=0.2, **FAST))
        event = next(loop)
        with outage(server, database), pytest.raises(errors.StreamDisconnectedError) as refused:
            next(loop)
        assert event.execution_id == first
        assert refused.value.cursor == event.cursor
        second = complete_one(client)
        assert drained(client, start=refused.value.cursor) == [second]


def test_a_database_that_was_never_there_is_an_error_at_once(kind: Kind) -> None:
    follower = Follower(kind, "host=/nowhere", lambda c: c.events("completion"))
    with pytest.raises(errors.TransportError, match="cannot connect to host=/nowhere"):
        follower.end()


def test_closing_from_another_thread_ends_the_loop(database: str) -> None:
    with Client(database) as client, client.events("completion") as subscription:
        loop = in_background(lambda: list(subscription))
        wait_until(lambda: subscription.position is not None, "the loop had begun")
        subscription.close()
        assert loop.result() == []
