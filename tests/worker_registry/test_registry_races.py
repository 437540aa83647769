"""Registrations, heartbeats, operators and the sweep at one row of the registry."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Clock, Connect, RoleConnection
from tests.support.cluster import Connection
from tests.support.engine import Race, Row, call


@pytest.fixture
def race(connect: Connect, clock: Clock) -> Race:
    """Two sessions at 1000 ms; the leader's transaction stays open until it is ended."""
    clock.freeze(1_000)
    return Race(leader=connect(autocommit=False), follower=connect(), watcher=connect())


def register(connection: Connection, **arguments: Any) -> Row:
    settings = {"worker_id": "pool", "worker_instance_id": "pool-1", "liveness_ttl_ms": 500, **arguments}
    return call(connection, "ff_register_worker", **settings)


def heartbeat(connection: Connection) -> Row:
    return call(connection, "ff_heartbeat_worker", worker_instance_id="pool-1")


def mark_dead(connection: Connection) -> Row:
    return call(connection, "ff_mark_worker_dead", worker_instance_id="pool-1")


def sweep(connection: Connection) -> Row:
    return call(connection, "ff_sweep_workers")


def events(connection: Connection) -> list[str]:
    rows = connection.execute(
        "select v.event_kind from flowfabric.ff_worker_registry_event as v order by v.event_id"
    )
    return [kind for (kind,) in rows.fetchall()]


def test_of_two_first_registrations_the_second_is_a_refresh(race: Race) -> None:
    assert register(race.leader)["outcome"] == "registered"
    waiting = race.follow(lambda session: register(session, capabilities=["gpu"]))
    race.leader.commit()
    assert waiting.result()["outcome"] == "refreshed"
    assert events(race.watcher) == ["registered", "refreshed"]
    assert call(race.watcher, "ff_list_workers")["capabilities"] == ["gpu"]


def test_a_registration_that_waited_is_the_first_when_the_other_gives_up(race: Race) -> None:
    register(race.leader)
    waiting = race.follow(register)
    race.leader.rollback()
    assert waiting.result()["outcome"] == "registered"
    assert events(race.watcher) == ["registered"]


def test_of_two_registrations_after_a_lapse_one_sweeps(race: Race, clock: Clock) -> None:
    register(race.watcher)
    clock.freeze(1_500)
    assert register(race.leader)["outcome"] == "registered"
    waiting = race.follow(register)
    race.leader.commit()
    assert waiting.result()["outcome"] == "refreshed"
    assert events(race.watcher) == ["registered", "ttl_swept", "registered", "refreshed"]


def test_a_heartbeat_that_waited_for_the_operator_finds_nobody(race: Race) -> None:
    register(race.watcher)
    assert mark_dead(race.leader)["outcome"] == "marked"
    waiting = race.follow(heartbeat)
    race.leader.commit()
    assert waiting.result()["outcome"] == "not_registered"


def test_a_heartbeat_is_judged_by_the_time_after_the_wait(race: Race, clock: Clock) -> None:
    register(race.watcher)
    race.leader.execute("select from flowfabric.ff_worker_registry for no key update")
    waiting = race.follow(heartbeat)
    clock.freeze(1_500)
    race.leader.commit()
    assert waiting.result()["outcome"] == "not_registered"


def test_a_registration_that_waited_for_the_operator_starts_anew(race: Race) -> None:
    register(race.watcher)
    mark_dead(race.leader)
    waiting = race.follow(register)
    race.leader.commit()
    assert waiting.result()["outcome"] == "registered"
    assert events(race.watcher) == ["registered", "marked_dead", "registered"]


def test_a_sweep_waits_for_nobody(race: Race, clock: Clock) -> None:
    register(race.watcher)
    clock.freeze(1_500)
    register(race.leader)
    busy = sweep(race.follower)
    assert (busy["processed"], busy["skipped"]) == (0, 1)
    race.leader.commit()
    assert sweep(race.follower)["processed"] == 0
    assert events(race.watcher) == ["registered", "ttl_swept", "registered"]


def test_of_two_sweeps_one_deletes_the_worker(race: Race, clock: Clock) -> None:
    register(race.watcher)
    clock.freeze(1_500)
    assert sweep(race.leader)["processed"] == 1
    assert sweep(race.follower)["processed"] == 0
    race.leader.commit()
    assert sweep(race.follower)["processed"] == 0
    assert events(race.watcher) == ["registered", "ttl_swept"]


def test_a_sweep_that_is_rolled_back_leaves_the_worker_and_no_event(race: Race, clock: Clock) -> None:
    register(race.watcher)
    clock.freeze(1_500)
    sweep(race.leader)
    race.leader.rollback()
    assert events(race.watcher) == ["registered"]
    assert call(race.watcher, "ff_list_workers", include_lapsed=True)["live"] is False


def test_a_change_wakes_whoever_waits_for_worker_events(connect: Connect, db: Connection) -> None:
    subscriber = connect()
    subscriber.execute("listen ff_worker_event")
    db.execute(
        "insert into flowfabric.ff_waiter (channel, key, waiter_id, until_ms)"
        " values ('ff_worker_event', '*', 'subscriber', flowfabric.ff_now_ms() + 60000)"
    )
    register(db)
    assert next(subscriber.notifies(timeout=20), None) is not None


def test_a_worker_role_announces_itself_and_an_operator_role_manages_it(
    role_connection: RoleConnection,
) -> None:
    worker, operator = role_connection("flowfabric_worker"), role_connection("flowfabric_operator")
    assert register(worker, liveness_ttl_ms=60_000)["outcome"] == "registered"
    assert call(operator, "ff_drain_worker", worker_instance_id="pool-1")["outcome"] == "draining"
    assert heartbeat(worker)["draining"] is True
    assert mark_dead(operator)["outcome"] == "marked"
    assert heartbeat(worker)["outcome"] == "not_registered"
