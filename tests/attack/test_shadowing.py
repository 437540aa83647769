"""Names that a hostile user prepares: functions, operators and tables where the engine's own would be.

Everything that runs with the rights of the owner runs with a pinned search_path. Here a session puts a trap
behind every name of pg_catalog that the engine uses and has its own schema searched first. A trap counts in a
sequence, which no rollback takes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import psycopg
import pytest

from tests.attack.calling import Call, perform
from tests.attack.catalogue import Function, public_functions
from tests.attack.values import Values
from tests.attack.world import World, build_world
from tests.conftest import RoleConnection
from tests.support.cluster import Connection

HOSTILE_PATH = "hostile, pg_temp, public, pg_catalog, flowfabric"
CALLS_PER_FUNCTION = 2

#: The hostile schema, with a trap for every function and relation that the engine mentions and for operators.
#: A trap has the signature of what it shadows, so that the order of the search_path alone decides.
TRAPS = """
    set local check_function_bodies = off;
    create schema hostile;
    create sequence hostile.fired_as_caller;
    create sequence hostile.fired_as_owner;
    create function hostile.fire() returns boolean language plpgsql as $$
    begin
        if current_user operator(pg_catalog.<>) session_user then
            perform pg_catalog.nextval('hostile.fired_as_owner');
        else
            perform pg_catalog.nextval('hostile.fired_as_caller');
        end if;
        return true;
    end;
    $$;

    create temporary table mentioned (name text primary key) on commit drop;
    insert into mentioned
    select distinct m.word[1]
    from pg_proc as f
    cross join lateral regexp_matches(f.prosrc, '[a-z_0-9]+', 'g') as m (word)
    where f.pronamespace = 'flowfabric'::regnamespace;

    do $$
    declare
        v record;
    begin
        for v in
            select p.proname, pg_get_function_identity_arguments(p.oid) as arguments,
                pg_get_function_result(p.oid) as result
            from pg_proc as p
            where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.proallargtypes is null
                and not exists (
                    select from pg_type as t
                    where t.typtype = 'p' and t.oid <> 'void'::regtype
                        and (t.oid = p.prorettype or t.oid = any (p.proargtypes::oid[])))
                and p.proname in (select m.name from mentioned as m)
        loop
            execute format(
                'create function hostile.%I(%s) returns %s language plpgsql as '
                '''begin perform hostile.fire(); return%s; end''',
                v.proname, v.arguments, v.result,
                case when v.result = 'void' or v.result like 'SETOF%' then '' else ' null' end);
        end loop;
        for v in
            select
                o.oprname, o.oprleft::regtype as l, o.oprright::regtype as r, o.oprresult::regtype as result,
                row_number() over () as number
            from pg_operator as o
            where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprleft <> 0
                and o.oprname in (
                    '=', '<>', '<', '>', '<=', '>=', '||', '+', '-', '*', '/', '%', '&', '#', '<<', '>>',
                    '->', '->>', '#>', '#>>', '?', '@>', '<@', '~', '!~', '~~', '!~~')
                and array[o.oprleft, o.oprright]::regtype[]::text[] <@ array[
                    'text', 'uuid', 'smallint', 'integer', 'bigint', 'numeric', 'double precision', 'boolean',
                    'bytea', 'jsonb', 'timestamp with time zone', 'interval', 'name', 'oid', 'xid8', '"char"']
        loop
            execute format(
                'create function hostile.operator_%s(%s, %s) returns %s language plpgsql as '
                '''begin perform hostile.fire(); return null; end''',
                v.number, v.l, v.r, v.result);
            execute format(
                'create operator hostile.%s (leftarg = %s, rightarg = %s, function = hostile.operator_%s)',
                v.oprname, v.l, v.r, v.number);
        end loop;
        -- What a table or a catalogue view would be found as, if it were not qualified.
        for v in
            select distinct c.relname
            from pg_class as c
            join mentioned as m on m.name = c.relname
            where c.relnamespace in ('flowfabric'::regnamespace, 'pg_catalog'::regnamespace)
                and c.relkind in ('r', 'v')
        loop
            execute format('create view hostile.%I as select hostile.fire()', v.relname);
            execute format('create temporary view %I as select hostile.fire()', v.relname);
        end loop;
    end;
    $$;
"""


def fired(connection: Connection, as_whom: str) -> int:
    row = connection.execute(
        "select last_value operator(pg_catalog.-) (not is_called)::pg_catalog.int4"
        f" from hostile.fired_as_{as_whom}"
    ).fetchone()
    assert row is not None
    return int(row[0])


def outcomes(connection: Connection, functions: list[Function], world: World) -> Iterator[tuple[str, str]]:
    """Always the same sensible calls of every function, each taken back, with the SQLSTATE of each."""
    values = Values(Random(1))
    for function in functions:
        for _ in range(CALLS_PER_FUNCTION):
            arguments = world.arguments(function, values)
            error = perform(connection, Call(function, arguments), keep=False).error
            yield function.name, "accepted" if error is None else str(error.diag.sqlstate)


@pytest.fixture
def world(db: Connection) -> World:
    return build_world(db)


@pytest.fixture
def hostile(db: Connection, world: World, role_connection: RoleConnection) -> Connection:
    """A session that may call everything, owns nothing of the engine, and has laid its traps."""
    session = role_connection("flowfabric_admin", autocommit=False)
    database = db.info.dbname
    db.execute(f'grant create, temporary on database "{database}" to "{session.info.user}"')
    session.execute(TRAPS.encode())
    session.commit()
    return session


def test_no_trap_fires_with_the_rights_of_the_owner(
    hostile: Connection, world: World, role_connection: RoleConnection
) -> None:
    clean = role_connection("flowfabric_admin", autocommit=False)
    functions = [function for function in public_functions(clean) if not function.is_procedure]
    undisturbed = list(outcomes(clean, functions, world))
    clean.rollback()
    hostile.execute("set search_path = " + HOSTILE_PATH)
    assert list(outcomes(hostile, functions, world)) == undisturbed
    assert len({name for name, outcome in undisturbed if outcome == "accepted"}) > len(functions) * 0.6
    assert fired(hostile, "owner") == 0


def test_the_traps_would_fire(db: Connection, hostile: Connection) -> None:
    hostile.execute("set search_path = " + HOSTILE_PATH)
    hostile.execute("select lower('A'), 1 = 2, 'a'::text || 'b'::text")
    assert fired(hostile, "caller") == 3
    hostile.rollback()

    # With the pin gone from one function, the owner walks into them.
    db.execute("alter function flowfabric.ff_solo_partition(text) reset search_path")
    hostile.execute("set search_path = " + HOSTILE_PATH)
    with pytest.raises(psycopg.Error):
        hostile.execute("select flowfabric.ff_solo_partition('default'::pg_catalog.text)")
    hostile.rollback()
    assert fired(hostile, "owner") > 0


def test_the_loop_of_scanners_ignores_the_path_of_its_caller(
    hostile: Connection, role_connection: RoleConnection
) -> None:
    # It runs with the rights of its caller: here an operator who has somebody else's schema in the path.
    hostile.execute("grant usage on schema hostile to public")
    hostile.execute("grant usage on all sequences in schema hostile to public")
    hostile.commit()
    operator = role_connection("flowfabric_operator")
    operator.execute("set search_path = " + HOSTILE_PATH)
    operator.execute("call flowfabric.ff_tick_loop(p_duration_ms => 50, p_interval_ms => 10)")
    with pytest.raises(psycopg.DatabaseError, match="invalid_input"):
        operator.execute("call flowfabric.ff_tick_loop(p_duration_ms => 0)")
    assert fired(hostile, "caller") == 0
