"""Creations that meet: two sessions with one key or id, and one inside the application's own transaction."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg.types.json import Jsonb

from tests.conftest import Clock, Connect
from tests.execution.creation import (
    Item,
    Row,
    create,
    create_batch,
    outcomes,
    stored_ids,
    stored_keys,
    wire_id,
)
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked

A, B, C = wire_id(0xA), wire_id(0xB), wire_id(0xC)

WRITTEN_TABLES = (
    "ff_exec_core",
    "ff_exec_payload",
    "ff_execution_idempotency",
    "ff_lane_registry",
    "ff_capability_set",
)


@pytest.fixture(autouse=True)
def default_lane(db: Connection) -> None:
    """The lane is there already, so that two sessions meet at their key or id and not at its registration."""
    db.execute("select flowfabric._ff_ensure_lane('default', 'test', 0)")


def one_in_a_batch(connection: Connection, item: Item) -> Row:
    (row,) = create_batch(connection, [item])
    return row


BOTH_FORMS = pytest.mark.parametrize("form", [create, one_in_a_batch])
Form = Callable[[Connection, Item], Row]


@BOTH_FORMS
def test_of_two_calls_with_one_key_the_second_waits_and_is_a_duplicate(connect: Connect, form: Form) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    created = form(first, Item(idempotency_key="order-1"))
    waiting = in_background(partial(form, second, Item(idempotency_key="order-1")))
    wait_until_blocked(observer, second, by=first)
    first.commit()

    assert created["outcome"] == "created"
    answer = waiting.result()
    assert (answer["outcome"], answer["execution_id"]) == ("duplicate", created["execution_id"])
    assert answer["public_state"] == "waiting"
    assert stored_ids(observer) == [created["execution_id"]]


@BOTH_FORMS
def test_if_the_first_call_with_a_key_rolls_back_the_second_creates(connect: Connect, form: Form) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    form(first, Item(execution_id=A, idempotency_key="order-1"))
    waiting = in_background(partial(form, second, Item(execution_id=B, idempotency_key="order-1")))
    wait_until_blocked(observer, second, by=first)
    first.rollback()

    assert waiting.result()["outcome"] == "created"
    assert stored_ids(observer) == [B]
    assert stored_keys(observer) == {"order-1": B}


@BOTH_FORMS
def test_of_two_calls_with_one_id_the_second_waits_and_is_a_duplicate(connect: Connect, form: Form) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    form(first, Item("first", execution_id=A))
    waiting = in_background(partial(form, second, Item("second", execution_id=A, idempotency_key="mine")))
    wait_until_blocked(observer, second, by=first)
    first.commit()

    answer = waiting.result()
    assert (answer["outcome"], answer["execution_id"]) == ("duplicate", A)
    assert stored_keys(observer) == {}, "a key must not name an execution that it did not create"
    assert observer.execute("select execution_kind from flowfabric.ff_exec_core").fetchall() == [("first",)]


@BOTH_FORMS
def test_if_the_first_call_with_an_id_rolls_back_the_second_creates(connect: Connect, form: Form) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    form(first, Item("first", execution_id=A))
    waiting = in_background(partial(form, second, Item("second", execution_id=A, idempotency_key="mine")))
    wait_until_blocked(observer, second, by=first)
    first.rollback()

    assert waiting.result()["outcome"] == "created"
    assert stored_keys(observer) == {"mine": A}
    assert observer.execute("select execution_kind from flowfabric.ff_exec_core").fetchall() == [("second",)]


@pytest.mark.parametrize("batch", [False, True])
def test_a_call_that_records_no_key_leaves_the_key_of_another_one_alone(
    connect: Connect, batch: bool
) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    item = Item(execution_id=A, idempotency_key="order-1")
    create(first, item)
    waiting = in_background(
        lambda: (
            create_batch(second, [item], dedup_ttl_ms=0)[0] if batch else create(second, item, dedup_ttl_ms=0)
        )
    )
    wait_until_blocked(observer, second, by=first)
    first.commit()

    assert waiting.result()["outcome"] == "duplicate"
    assert stored_keys(observer) == {"order-1": A}


@BOTH_FORMS
def test_a_key_that_expired_is_taken_over_by_one_call_only(
    connect: Connect, clock: Clock, form: Form
) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    clock.freeze(1_000)
    create(observer, Item(execution_id=A, idempotency_key="order-1"), dedup_ttl_ms=500)
    clock.freeze(1_500)
    form(first, Item(execution_id=B, idempotency_key="order-1"))
    waiting = in_background(partial(form, second, Item(execution_id=C, idempotency_key="order-1")))
    wait_until_blocked(observer, second, by=first)
    first.commit()

    answer = waiting.result()
    assert (answer["outcome"], answer["execution_id"]) == ("duplicate", B)
    assert stored_ids(observer) == [A, B]


@pytest.mark.parametrize("by", ["key", "id"])
def test_crossed_batches_create_each_item_once(connect: Connect, by: str) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    items = [
        Item(idempotency_key=f"k{n}") if by == "key" else Item(execution_id=wire_id(n)) for n in range(20)
    ]
    created = create_batch(first, items)
    waiting = in_background(lambda: create_batch(second, items[::-1]))
    wait_until_blocked(observer, second, by=first)
    first.commit()

    assert {outcome for outcome, _ in outcomes(created)} == {"created"}
    assert outcomes(waiting.result()) == [("duplicate", id_) for _, id_ in outcomes(created)][::-1]
    assert len(stored_ids(observer)) == 20


def test_only_the_items_of_the_other_session_become_duplicates(connect: Connect) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    create(first, Item(execution_id=A, idempotency_key="taken"))
    create(first, Item(execution_id=C))
    items = [
        Item(idempotency_key="taken"),
        Item(execution_id=B, idempotency_key="mine"),
        Item(execution_id=C, idempotency_key="lost"),
        Item("", idempotency_key="refused"),
        Item(),
    ]
    waiting = in_background(lambda: create_batch(second, items))
    wait_until_blocked(observer, second, by=first)
    first.commit()

    rows = waiting.result()
    assert [row["outcome"] for row in rows] == ["duplicate", "created", "duplicate", "refused", "created"]
    assert [row["execution_id"] for row in rows][:4] == [A, B, C, None]
    assert stored_keys(observer) == {"taken": A, "mine": B}
    assert stored_ids(observer) == sorted([A, B, C, str(rows[4]["execution_id"])])


def test_an_item_whose_forerunner_lost_its_key_takes_the_id_itself(connect: Connect) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    create(first, Item(execution_id=A, idempotency_key="taken"))
    # One after another: the first is a duplicate of A, so that B is free for the second.
    items = [Item("one", execution_id=B, idempotency_key="taken"), Item("two", execution_id=B)]
    waiting = in_background(lambda: create_batch(second, items))
    wait_until_blocked(observer, second, by=first)
    first.commit()

    assert outcomes(waiting.result()) == [("duplicate", A), ("created", B)]
    assert stored_ids(observer) == [A, B]
    assert observer.execute(
        "select execution_kind from flowfabric.ff_exec_core where execution_id = %s", [B[8:]]
    ).fetchall() == [("two",)]


def test_an_item_whose_forerunner_lost_its_id_takes_the_key_itself(connect: Connect) -> None:
    first, second, observer = connect(autocommit=False), connect(), connect()
    create(first, Item(execution_id=A))
    items = [
        Item(execution_id=A, idempotency_key="order-1"),
        Item(execution_id=B, idempotency_key="order-1"),
        Item(execution_id=C, idempotency_key="order-1"),
    ]
    waiting = in_background(lambda: create_batch(second, items))
    wait_until_blocked(observer, second, by=first)
    first.commit()

    assert outcomes(waiting.result()) == [("duplicate", A), ("created", B), ("duplicate", B)]
    assert stored_ids(observer) == [A, B]
    assert stored_keys(observer) == {"order-1": B}


def run_together(connect: Connect, batches: Sequence[Sequence[Item]]) -> list[Row]:
    """Create every batch in a session of its own, all at the same moment; return the rows of all of them."""
    start = threading.Barrier(len(batches))

    def run(connection: Connection, items: Sequence[Item]) -> list[Row]:
        start.wait()
        return create_batch(connection, items)

    running = [in_background(partial(run, connect(), items)) for items in batches]
    return [row for each in running for row in each.result()]


@pytest.mark.parametrize("seed", range(8))
def test_batches_that_mix_ids_and_keys_never_deadlock(connect: Connect, seed: int) -> None:
    # Few ids and keys in any combination: nearly every item meets another one, in its batch or in another.
    choose = random.Random(seed)
    ids = [*map(wire_id, range(6)), None]
    keys = [*(f"k{n}" for n in range(6)), None]

    batches = [
        [Item(execution_id=choose.choice(ids), idempotency_key=choose.choice(keys)) for _ in range(15)]
        for _ in range(4)
    ]
    rows = run_together(connect, batches)

    observer = connect()
    created = Counter(row["execution_id"] for row in rows if row["outcome"] == "created")
    assert sorted(created) == stored_ids(observer)
    assert set(created.values()) == {1}
    assert {row["outcome"] for row in rows} == {"created", "duplicate"}
    assert {row["public_state"] for row in rows} == {"waiting"}, (
        "every answer names an execution that is there"
    )
    assert set(stored_keys(observer).values()) <= created.keys()


def item_with_key(name: str) -> Item:
    return Item(idempotency_key=name)


def item_with_id(name: str) -> Item:
    return Item(execution_id=A if name == "a" else B)


def item_on_lane(name: str) -> Item:
    return Item(lane_id=name)


def item_requiring(name: str) -> Item:
    # The rank makes the policies sort the other way round than the sets that they require.
    policy = {"max_replay_count": 200 - ord(name), "routing_requirements": {"required_capabilities": [name]}}
    return Item(policy=Jsonb(policy))


@pytest.mark.parametrize("item", [item_with_key, item_with_id, item_on_lane, item_requiring])
def test_whatever_the_order_of_a_batch_it_takes_what_comes_first_first(
    connect: Connect, item: Callable[[str], Item]
) -> None:
    holder, waiter, third, observer = connect(autocommit=False), connect(), connect(), connect()
    create(holder, item("a"))
    waiting = in_background(lambda: create_batch(waiter, [item("b"), item("a")]))
    wait_until_blocked(observer, waiter, by=holder)

    third.execute("set lock_timeout = '5s'")
    assert create(third, item("b"))["outcome"] == "created", "who waits for the first holds nothing behind it"
    holder.commit()
    waiting.result()


def test_batches_that_bring_the_same_new_lanes_never_deadlock(connect: Connect) -> None:
    items = [Item(lane_id=f"lane-{n}") for n in range(60)]
    rows = run_together(connect, [items, items[::-1], items[30:] + items[:30]])

    assert {row["outcome"] for row in rows} == {"created"}
    lanes = connect().execute("select count(*) from flowfabric.ff_lane_registry where lane_id like 'lane-%'")
    assert lanes.fetchone() == (60,)


def test_batches_that_bring_the_same_new_capabilities_never_deadlock(connect: Connect) -> None:
    def item(number: int, rank: int) -> Item:
        # Documents sort by their rank here, so that the order of the policies is not that of the sets.
        policy = {
            "max_replay_count": rank,
            "routing_requirements": {"required_capabilities": [f"cap-{number}"]},
        }
        return Item(f"cap-{number}", policy=Jsonb(policy))

    ranks = (range(60), range(60, 0, -1), [n % 7 * 10 + n // 7 for n in range(60)])
    rows = run_together(
        connect, [[item(number, rank) for number, rank in enumerate(order)] for order in ranks]
    )

    assert {row["outcome"] for row in rows} == {"created"}
    observer = connect()
    assert observer.execute("select count(*) from flowfabric.ff_capability_set").fetchone() == (61,)
    assert observer.execute(
        """
        select count(*) from flowfabric.ff_exec_core as e
        join flowfabric.ff_capability_set as s on s.capability_set_id = e.capability_set_id
        where s.tokens = array[e.execution_kind]
        """
    ).fetchone() == (180,)


@pytest.mark.parametrize(
    "items",
    [
        [Item(idempotency_key="taken")],
        [Item(execution_id=A)],
        [Item(idempotency_key="taken"), Item(idempotency_key="taken")],
        [Item(execution_id=A), Item(execution_id=A)],
    ],
)
def test_a_stricter_isolation_level_leaves_a_lost_race_to_the_caller(
    connect: Connect, items: list[Item]
) -> None:
    winner, strict = connect(), connect(autocommit=False)
    strict.isolation_level = IsolationLevel.REPEATABLE_READ
    strict.execute("select 1")  # fixes what this transaction can see
    create(winner, Item(execution_id=A, idempotency_key="taken"))
    with pytest.raises(psycopg.errors.SerializationFailure):
        create_batch(strict, items)


def row_counts(connection: Connection) -> list[int]:
    counts = ", ".join(f"(select count(*) from flowfabric.{table})" for table in WRITTEN_TABLES)
    row = connection.execute(f"select {counts}").fetchone()
    assert row is not None
    return list(row)


ITEM_WITH_EVERYTHING = Item(
    payload=b"x",
    lane_id="new",
    idempotency_key="order-1",
    policy=Jsonb({"routing_requirements": {"required_capabilities": ["new"]}}),
)


@BOTH_FORMS
def test_the_callers_rollback_leaves_nothing(connect: Connect, form: Form) -> None:
    application, observer = connect(autocommit=False), connect()
    before = row_counts(observer)
    assert form(application, ITEM_WITH_EVERYTHING)["outcome"] == "created"
    assert row_counts(application) == [count + 1 for count in before]
    application.rollback()
    assert row_counts(observer) == before


@BOTH_FORMS
def test_a_creation_commits_together_with_the_callers_own_rows(connect: Connect, form: Form) -> None:
    application, observer = connect(autocommit=False), connect()
    observer.execute("create table orders (number integer)")
    application.execute("insert into orders values (1)")
    with application.transaction():
        created = form(application, Item(idempotency_key="order-1"))
    assert stored_ids(observer) == [], "nothing is visible before the caller commits"

    application.execute("savepoint before_the_refusal")
    application.execute("insert into orders values (2)")
    with pytest.raises(psycopg.Error) as refused:
        create(application, Item(policy=Jsonb([])))
    assert refused.value.sqlstate == "ZV004"
    application.execute("rollback to savepoint before_the_refusal")
    with application.transaction():
        assert form(application, Item(idempotency_key="order-1"))["outcome"] == "duplicate"
    application.execute("insert into orders values (3)")
    application.commit()

    assert observer.execute("select number from orders order by 1").fetchall() == [(1,), (3,)]
    assert stored_ids(observer) == [created["execution_id"]]
