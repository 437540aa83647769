"""Names that a hostile user prepares: functions, operators, tables and types where the engine's own would be.

Everything that runs with the rights of the owner runs with a pinned search_path. Here a session puts a trap
behind every name of pg_catalog that the engine uses and has its own schema searched first. It also makes
casts, which no search_path leaves out, between a type of its own and all others. A trap counts in a sequence,
which no rollback takes back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Protocol

import psycopg
import pytest

from tests.attack.calling import Call, answer
from tests.attack.catalogue import Function, public_functions
from tests.attack.values import Values
from tests.attack.world import World, build_world
from tests.conftest import RoleConnection
from tests.support.cluster import Connection

HOSTILE_PATH = "hostile, pg_temp, public, pg_catalog, flowfabric"
CALLS_PER_FUNCTION = 2
#: They would run in the middle of the engine; only the owner of one of the types could make them.
CASTS_OF_OTHERS = [
    "flowfabric.ff_execution_key as pg_catalog.json",
    "flowfabric.ff_exec_core as pg_catalog.jsonb",
    "pg_catalog.text as flowfabric.ff_lifecycle_phase",
    "pg_catalog.text as pg_catalog.uuid",
    "pg_catalog.jsonb as pg_catalog.text",
]

_SQLSTATE = re.compile(r"[0-9A-Z]{5}")

#: The hostile schema, what every trap in it does, and for what there are to be traps.
HOSTILE_SCHEMA = """
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
"""

#: A trap for every function and relation that the engine mentions, and for operators. It has the signature of
#: what it shadows, so that the order of the search_path alone decides.
NAMES = """
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

#: A trap for every type that the engine mentions, its own included: a domain over it, which takes the same
#: values and fires for each. Where the type of a table would be found, there may be a view already.
TYPES = """
    do $$
    declare
        v record;
    begin
        for v in
            select n.nspname, t.typname, s.trap_schema
            from pg_catalog.pg_type as t
            join pg_catalog.pg_namespace as n on n.oid = t.typnamespace
            join mentioned as m on m.name = t.typname
            cross join (values ('hostile'), ('pg_temp')) as s (trap_schema)
            where (n.nspname = 'flowfabric' or (n.nspname = 'pg_catalog' and t.typtype = 'b'))
                and to_regtype(format('%I.%I', s.trap_schema, t.typname)) is null
            -- Temporary types are found first, by the statements of this block too.
            order by s.trap_schema
        loop
            execute format(
                'create domain %I.%I as %I.%I check (hostile.fire())',
                v.trap_schema, v.typname, v.nspname, v.typname);
        end loop;
    end;
    $$;
"""

#: A type of the hostile user's own, which becomes any other and any other it, wherever that is asked for.
CASTS = """
    create type hostile.bait as (content pg_catalog.text);
    do $$
    declare
        v record;
    begin
        for v in
            select format('%I.%I', n.nspname, t.typname) as name, row_number() over (order by t.oid) as number
            from pg_catalog.pg_type as t
            join pg_catalog.pg_namespace as n on n.oid = t.typnamespace
            where t.typtype in ('b', 'c', 'e')
                and (n.nspname = 'flowfabric'
                    or (n.nspname = 'pg_catalog'
                        and ltrim(t.typname, '_') in (select m.name from mentioned as m))
                    or exists (
                        select from pg_catalog.pg_proc as p
                        where p.pronamespace = 'flowfabric'::regnamespace
                            and t.oid = any (p.proargtypes::oid[])))
        loop
            execute format(
                'create function hostile.cast_to_%1$s(hostile.bait) returns %2$s language plpgsql as '
                '''begin perform hostile.fire(); return ($1).content::%2$s; end'';'
                'create function hostile.cast_from_%1$s(%2$s) returns hostile.bait language plpgsql as '
                '''begin perform hostile.fire(); return row(null)::hostile.bait; end'';'
                'create cast (hostile.bait as %2$s) with function hostile.cast_to_%1$s(hostile.bait)'
                ' as implicit;'
                'create cast (%2$s as hostile.bait) with function hostile.cast_from_%1$s(%2$s) as %3$s',
                v.number, v.name, case when v.number % 2 = 0 then 'implicit' else 'assignment' end);
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


@dataclass(frozen=True)
class BaitedFunction(Function):
    """A function that gets each argument as a value of the hostile type, which must be cast."""

    def statement(self, arguments: Mapping[str, str | None]) -> tuple[str, dict[str, str | None]]:
        named = ", ".join(f"p_{name} => row(%({name})s::pg_catalog.text)::hostile.bait" for name in arguments)
        return f"select * from flowfabric.{self.name}({named})", dict(arguments)


def answers(connection: Connection, functions: list[Function], world: World) -> list[tuple[str, str | None]]:
    """What always the same sensible calls of every function come to; each is taken back."""
    values = Values(Random(1))
    return [
        (function.name, answer(connection, Call(function, world.arguments(function, values))))
        for function in functions
        for _ in range(CALLS_PER_FUNCTION)
    ]


@pytest.fixture
def world(db: Connection) -> World:
    return build_world(db)


class LayTraps(Protocol):
    """Opens a session that may call everything, owns nothing of the engine, and has laid these traps."""

    def __call__(self, *traps: str) -> Connection: ...


@pytest.fixture
def lay_traps(db: Connection, world: World, role_connection: RoleConnection) -> LayTraps:
    def factory(*traps: str) -> Connection:
        session = role_connection("flowfabric_admin", autocommit=False)
        db.execute(f'grant create, temporary on database "{db.info.dbname}" to "{session.info.user}"')
        for script in (HOSTILE_SCHEMA, *traps):
            session.execute(script.encode())
        session.execute("set search_path = " + HOSTILE_PATH)
        session.commit()
        return session

    return factory


@pytest.fixture
def hostile(lay_traps: LayTraps) -> Connection:
    """A session that has laid all of its traps."""
    return lay_traps(NAMES, CASTS, TYPES)


@pytest.fixture
def functions(db: Connection) -> list[Function]:
    """What runs with the owner's rights; elsewhere the traps of a caller spoil only its own answer."""
    own = "select from pg_proc where pronamespace = 'flowfabric'::regnamespace and prosecdef and proname = %s"
    return [
        function
        for function in public_functions(db)
        if not function.is_procedure and db.execute(own, [function.name]).rowcount
    ]


@pytest.fixture
def undisturbed(
    functions: list[Function], world: World, role_connection: RoleConnection
) -> list[tuple[str, str | None]]:
    """The answers in a session without traps."""
    clean = role_connection("flowfabric_admin", autocommit=False)
    found = answers(clean, functions, world)
    clean.rollback()
    accepted = {name for name, content in found if not _SQLSTATE.fullmatch(str(content))}
    # Otherwise the calls did not get far enough to meet a trap.
    assert len(accepted) > len(functions) * 0.6
    return found


def test_no_trap_fires_with_the_rights_of_the_owner(
    hostile: Connection,
    world: World,
    functions: list[Function],
    undisturbed: list[tuple[str, str | None]],
) -> None:
    assert answers(hostile, functions, world) == undisturbed
    assert fired(hostile, "owner") == 0


def test_no_cast_runs_with_the_rights_of_the_owner(
    hostile: Connection,
    world: World,
    functions: list[Function],
    undisturbed: list[tuple[str, str | None]],
) -> None:
    baited: list[Function] = [BaitedFunction(f.name, f.is_procedure, f.parameters) for f in functions]
    before = fired(hostile, "caller")
    assert answers(hostile, baited, world) == undisturbed
    assert fired(hostile, "caller") > before + len(functions)
    assert fired(hostile, "owner") == 0


@pytest.mark.parametrize("cast", CASTS_OF_OTHERS)
def test_nobody_makes_a_cast_between_types_of_others(role_connection: RoleConnection, cast: str) -> None:
    session = role_connection("flowfabric_admin")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(f"create cast ({cast}) with inout as implicit")


def test_the_traps_would_fire(db: Connection, lay_traps: LayTraps) -> None:
    hostile = lay_traps(NAMES)
    hostile.execute("select lower('A'), 1 = 2, 'a'::text || 'b'::text")
    assert fired(hostile, "caller") == 3
    hostile.rollback()

    # With the pin gone from one function, the owner walks into them.
    db.execute("alter function flowfabric.ff_solo_partition(text) reset search_path")
    with pytest.raises(psycopg.Error):
        hostile.execute("select flowfabric.ff_solo_partition('default'::pg_catalog.text)")
    hostile.rollback()
    assert fired(hostile, "owner") > 0


def test_the_traps_in_types_would_fire(db: Connection, lay_traps: LayTraps) -> None:
    hostile = lay_traps(TYPES)
    hostile.execute("select 'a'::text")
    assert fired(hostile, "caller") == 1
    hostile.rollback()

    db.execute("alter function flowfabric.ff_read_execution_state(text) reset search_path")
    hostile.execute(
        "select flowfabric.ff_read_execution_state('{fp:0}:00000000-0000-4000-8000-000000000001')"
    )
    assert fired(hostile, "owner") > 0


def test_a_type_of_the_engine_without_its_schema_would_fire_in_spite_of_the_pin(
    db: Connection, lay_traps: LayTraps
) -> None:
    db.execute("set check_function_bodies = off")
    db.execute(
        "create function public.careless() returns void language plpgsql security definer"
        " set search_path = pg_catalog, pg_temp as 'declare v_key ff_execution_key; begin end'"
    )
    hostile = lay_traps(TYPES)
    hostile.execute("select public.careless()")
    assert fired(hostile, "owner") > 0


def test_a_cast_in_a_function_that_takes_any_type_would_fire(db: Connection, lay_traps: LayTraps) -> None:
    db.execute(
        "create function public.careless(anyelement) returns text language plpgsql security definer"
        " set search_path = pg_catalog, pg_temp as 'begin return $1; end'"
    )
    hostile = lay_traps(CASTS)
    hostile.execute("select public.careless(row('a')::hostile.bait)")
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
    before = fired(hostile, "caller")
    operator.execute("call flowfabric.ff_tick_loop(p_duration_ms => 50, p_interval_ms => 10)")
    with pytest.raises(psycopg.DatabaseError, match="invalid_input"):
        operator.execute("call flowfabric.ff_tick_loop(p_duration_ms => 0)")
    assert fired(hostile, "caller") == before
