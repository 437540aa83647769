"""A leaked signaller credential: it delivers a correctly signed signal, and that is all.

Everything here happens over a connection that logged in as a member of flowfabric_signaller, and of nothing
else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from tests.conftest import Clock, RoleConnection
from tests.support.cluster import Connection
from tests.suspension.support import (
    Waitpoint,
    buffer,
    call,
    count,
    deliver,
    execution_id,
    install_key,
    lease,
    open_pending,
    public_state,
    refusal,
    single,
    suspend,
    value,
)

DELIVERIES = frozenset({"ff_deliver_signal", "ff_buffer_signal_for_pending_waitpoint"})
#: They know nothing but their arguments, the clock and constants.
HARMLESS = frozenset(
    {
        "ff_now_ms",
        "ff_version",
        "ff_ping",
        "ff_parse_execution_id",
        "ff_format_execution_id",
        "ff_list_error_codes",
    }
)


@pytest.fixture
def signaller(role_connection: RoleConnection) -> Connection:
    return role_connection("flowfabric_signaller")


@dataclass
class Installation:
    """A system in use: one execution is suspended, one has opened a waitpoint, one has closed its own."""

    active: Waitpoint
    pending: Waitpoint
    closed: Waitpoint


@pytest.fixture
def installation(db: Connection) -> Installation:
    install_key(db)
    (active,) = suspend(db, lease(db, 1), count(3, "DistinctSignals"))
    pending = open_pending(db, lease(db, 2), "wpk:approval")
    (closed,) = suspend(db, lease(db, 3), single())
    call(db, "ff_resume_execution", execution_id=execution_id(3))
    return Installation(active, pending, closed)


class Refusal(NamedTuple):
    """All that a refusal tells its caller."""

    sqlstate: str | None
    message: str | None
    detail: str | None
    hint: str | None
    context: str | None


def refusal_in_full(connection: Connection, waitpoint: Waitpoint) -> Refusal:
    with pytest.raises(psycopg.Error) as caught:
        deliver(connection, waitpoint)
    diag = caught.value.diag
    return Refusal(diag.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint, diag.context)


def test_it_delivers_with_a_good_token(
    signaller: Connection, installation: Installation, db: Connection
) -> None:
    assert deliver(signaller, installation.active)["effect"] == "appended_to_waitpoint"
    assert buffer(signaller, installation.pending)["effect"] == "buffered_for_pending_waitpoint"
    deliver(signaller, installation.active)
    assert deliver(signaller, installation.active)["effect"] == "resume_condition_satisfied"
    assert public_state(db, 1) == "waiting"


def test_it_may_execute_nothing_else(
    signaller: Connection, installation: Installation, db: Connection
) -> None:
    functions = db.execute(
        """
        select p.proname, p.prokind, array(
            select format_type(t.oid, null) from unnest(p.proargtypes) with ordinality as t (oid, number)
            order by t.number)
        from pg_proc as p
        where p.pronamespace = 'flowfabric'::regnamespace and p.prokind in ('f', 'p')
        """
    ).fetchall()
    allowed = set()
    for name, kind, types in functions:
        # A plain NULL would let the planner skip the call of a strict function, and with it the refusal.
        null, verb = ("null::{}", "call") if kind == "p" else ("(select null::{})", "select")
        arguments = sql.SQL(", ").join(sql.SQL(null).format(sql.SQL(t)) for t in types)
        statement = sql.SQL(verb + " {}({})").format(sql.Identifier("flowfabric", name), arguments)
        try:
            signaller.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            continue
        except psycopg.Error:
            pass
        allowed.add(name)
    assert allowed == DELIVERIES | HARMLESS
    assert len(functions) > len(allowed) + 100


def test_it_reads_and_writes_no_table(
    signaller: Connection, installation: Installation, db: Connection
) -> None:
    relations = db.execute(
        """
        select c.relname, c.relkind, (
            select a.attname from pg_attribute as a where a.attrelid = c.oid and a.attnum > 0
            order by a.attnum limit 1)
        from pg_class as c
        where c.relnamespace = 'flowfabric'::regnamespace and c.relkind in ('r', 'v', 'S')
        """
    ).fetchall()
    assert len(relations) > 40
    for name, kind, column in relations:
        relation = sql.Identifier("flowfabric", name)
        statements = ["select from {r}", "select {c} from {r}"]
        if kind == "r":
            statements += [
                "insert into {r} default values",
                "update {r} set {c} = default",
                "delete from {r}",
                "truncate {r}",
                "copy {r} to stdout",
            ]
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                signaller.execute(sql.SQL(statement).format(r=relation, c=sql.Identifier(column)))


@pytest.mark.parametrize(
    "statement",
    [
        "create table flowfabric.mine ()",
        "create function flowfabric.mine() returns integer language sql as 'select 1'",
        "set role flowfabric_operator",
        "set role flowfabric_admin",
        "alter function flowfabric.ff_deliver_signal security invoker",
        "grant flowfabric_worker to current_user",
    ],
)
def test_it_gains_no_power(signaller: Connection, installation: Installation, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        signaller.execute(statement.encode())


def test_it_cannot_plant_functions_that_the_engine_would_call(
    signaller: Connection, installation: Installation
) -> None:
    # The pinned search_path looks into pg_catalog first, and into pg_temp for relations and types only.
    signaller.execute(
        "create function pg_temp.sha256(bytea) returns bytea language sql as $$ select ''::bytea $$"
    )
    signaller.execute("set search_path = pg_temp, pg_catalog")
    forged = Waitpoint(
        installation.active.execution_id,
        installation.active.waitpoint_id,
        installation.active.waitpoint_key,
        f"kid-1:{'0' * 64}",
    )
    assert refusal(signaller, "ff_deliver_signal", **forged.address, signal_name="x") == "invalid_token"
    assert deliver(signaller, installation.active)["outcome"] == "accepted"


def with_token(waitpoint: Waitpoint, token: str) -> Waitpoint:
    return Waitpoint(waitpoint.execution_id, waitpoint.waitpoint_id, waitpoint.waitpoint_key, token)


def with_id(waitpoint: Waitpoint, waitpoint_id: UUID) -> Waitpoint:
    return Waitpoint(waitpoint.execution_id, waitpoint_id, waitpoint.waitpoint_key, waitpoint.waitpoint_token)


def on_execution(waitpoint: Waitpoint, number: int) -> Waitpoint:
    return Waitpoint(
        execution_id(number), waitpoint.waitpoint_id, waitpoint.waitpoint_key, waitpoint.waitpoint_token
    )


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (f"kid-1:{'0' * 64}", "invalid_token"),
        (f"kid-1:{'F' * 64}", "invalid_token"),
        (f"kid-7:{'0' * 64}", "invalid_token"),
        ("kid-1:", "invalid_token"),
        ("x" * 100_000, "invalid_token"),
        ("", "missing_token"),
        (f"old:{'0' * 64}", "token_expired"),
    ],
)
def test_it_cannot_guess_which_waitpoints_exist(
    signaller: Connection, installation: Installation, db: Connection, clock: Clock, token: str, code: str
) -> None:
    clock.freeze(clock.now_ms())
    install_key(db, "old")
    install_key(db, "current", grace_ms=0)
    clock.advance(1)
    candidates = [
        with_token(installation.active, token),
        with_token(on_execution(installation.pending, 1), token),
        with_token(on_execution(installation.closed, 1), token),
        with_token(with_id(installation.active, uuid4()), token),
    ]
    own_execution = [with_token(installation.pending, token), with_token(installation.closed, token)]
    refusals = {refusal_in_full(signaller, candidate) for candidate in candidates + own_execution}
    assert {refusal.message for refusal in refusals} == {code}
    assert len(refusals) == 1
    assert value(db, "select count(*) from flowfabric.ff_signal") == 0
    assert value(db, "select count(*) from flowfabric.ff_exec_note") == 0


def test_a_token_opens_one_waitpoint_of_one_execution(
    signaller: Connection, installation: Installation, db: Connection
) -> None:
    strangers = [
        on_execution(installation.active, 2),
        on_execution(installation.active, 3),
        with_token(installation.active, installation.pending.waitpoint_token),
        with_token(installation.pending, installation.active.waitpoint_token),
        with_id(installation.active, installation.pending.waitpoint_id),
    ]
    assert {refusal_in_full(signaller, stranger).message for stranger in strangers} == {"invalid_token"}
    assert refusal_in_full(signaller, on_execution(installation.active, 99)).message == (
        "execution_not_found"
    )


def test_a_token_dies_with_its_waitpoint(
    signaller: Connection, installation: Installation, db: Connection
) -> None:
    assert refusal_in_full(signaller, installation.closed).message == "target_not_signalable"
    claimed = call(
        db,
        "ff_issue_grant_and_claim",
        execution_id=execution_id(3),
        lease_ttl_ms=60_000,
        worker_id="worker",
        worker_instance_id="worker-1",
    )
    fence = {name: claimed[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}
    (fresh,) = suspend(db, fence, single())
    assert refusal_in_full(signaller, installation.closed).message == "waitpoint_closed"
    assert public_state(db, 3) == "suspended"
    assert deliver(signaller, fresh)["effect"] == "resume_condition_satisfied"
