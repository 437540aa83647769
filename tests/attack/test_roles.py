"""Least privilege, proved from outside: a login of each role tries everything that there is in the schema.

pgtap/00_contract asks the catalogue who may do what; here a session finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from tests.attack.catalogue import ROLES, documented_roles, public_functions
from tests.conftest import RoleConnection
from tests.support.cluster import Connection

OUTSIDER = "outsider"
VIEWERS = {"reader", "operator", "admin"}
DENIED = "42501"

Statement = sql.SQL | sql.Composed

#: What would lead from any role to all of them, or out of the database. Each needs a right that no role has.
ESCALATIONS = [
    "create table flowfabric.foothold ()",
    "create function flowfabric.foothold() returns void language sql as ''",
    "create view flowfabric.foothold as select",
    "create or replace function flowfabric.ff_ping() returns bigint language sql as 'select 0::bigint'",
    "alter function flowfabric.ff_ping() security invoker",
    "alter function flowfabric.ff_ping() reset all",
    "alter function flowfabric.ff_ping() owner to current_user",
    "drop function flowfabric.ff_ping()",
    "comment on function flowfabric.ff_ping() is 'mine'",
    "alter schema flowfabric owner to current_user",
    "alter schema flowfabric rename to mine",
    "alter table flowfabric.ff_exec_core add column foothold text",
    "alter table flowfabric.ff_exec_core disable trigger all",
    "create trigger foothold after insert on flowfabric.ff_exec_core execute function xml_is_well_formed()",
    "create rule foothold as on insert to flowfabric.ff_exec_core do nothing",
    "create index on flowfabric.ff_exec_core (lane_id)",
    "create policy foothold on flowfabric.ff_exec_core",
    "create type flowfabric.foothold as (a text)",
    "create operator flowfabric.= (leftarg = text, rightarg = text, function = texteq)",
    "create publication foothold for table flowfabric.ff_exec_core",
    "create event trigger foothold on ddl_command_end execute function xml_is_well_formed()",
    "set session_replication_role = replica",
    "set session authorization postgres",
    "alter role current_user superuser",
    "grant flowfabric_admin to current_user",
    "copy flowfabric.ff_exec_core to program 'true'",
    "copy flowfabric.ff_waitpoint_hmac to stdout",
    "lock table flowfabric.ff_exec_core in access share mode",
]


@pytest.fixture(params=[*ROLES, OUTSIDER])
def role(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def session(role: str, role_connection: RoleConnection) -> Connection:
    """A login that has the role and nothing else; the outsider has a right that gives nothing here."""
    return role_connection("pg_monitor" if role == OUTSIDER else f"flowfabric_{role}", autocommit=False)


@pytest.fixture
def attempt(session: Connection) -> Callable[[Statement], str]:
    """Tries a statement and takes back whatever it did; says `done`, or the SQLSTATE of the refusal."""

    def attempt(statement: Statement) -> str:
        session.execute("savepoint attempt")
        try:
            session.execute(statement)
        except psycopg.Error as error:
            return error.diag.sqlstate or "the connection is gone"
        else:
            return "done"
        finally:
            session.execute("rollback to savepoint attempt")

    return attempt


def routines(connection: Connection, prefix: str) -> Iterator[tuple[str, Statement]]:
    """Every routine whose name starts like this, with a call of it in which all arguments are NULL."""
    found = connection.execute(
        """
        select p.proname, p.prokind::text, array(
            select format_type(a.type, null) from unnest(p.proargtypes) with ordinality as a (type, number)
            order by a.number)
        from pg_proc as p
        where p.pronamespace = 'flowfabric'::regnamespace and starts_with(p.proname, %s)""",
        [prefix],
    )
    for name, kind, types in found.fetchall():
        # NULL from a row that the planner cannot look into: a strict function of NULL itself is never called.
        if kind == "p":
            call = "call flowfabric.{}({})", [f"null::{sql_type}" for sql_type in types]
        else:
            row = ", ".join(f"null::{sql_type} as a{number}" for number, sql_type in enumerate(types))
            call = (
                f"select flowfabric.{{}}({{}}) from (select {row} from pg_catalog.pg_class limit 1) as n",
                [f"n.a{number}" for number in range(len(types))],
            )
        yield name, sql.SQL(call[0]).format(sql.Identifier(name), sql.SQL(", ".join(call[1])))


def test_a_role_can_call_exactly_what_is_documented(
    role: str, db: Connection, attempt: Callable[[Statement], str]
) -> None:
    documented = documented_roles()
    assert documented.keys() == {function.name for function in public_functions(db)}
    wrong = {
        name: outcome
        for name, call in routines(db, "ff_")
        if ((outcome := attempt(call)) != DENIED) != (role in documented[name])
    }
    assert wrong == {}


def test_no_role_can_call_an_internal_function(db: Connection, attempt: Callable[[Statement], str]) -> None:
    internal = list(routines(db, "_ff_"))
    assert len(internal) > 100
    assert {name: outcome for name, call in internal if (outcome := attempt(call)) != DENIED} == {}


def test_no_role_can_reach_a_table_or_a_sequence(db: Connection, attempt: Callable[[Statement], str]) -> None:
    relations = db.execute(
        "select relname, relkind::text from pg_class"
        " where relnamespace = 'flowfabric'::regnamespace and relkind in ('r', 'S')"
    ).fetchall()
    ways = {
        "r": [
            "select from {}",
            "insert into {} default values",
            "delete from {}",
            "truncate {}",
            "lock table {} in access share mode",
            "copy {} to stdout",
        ],
        "S": ["select * from {}", "select nextval('{}')", "select setval('{}', 1)"],
    }
    reached = {
        (way, name): outcome
        for name, kind in relations
        for way in ways[kind]
        if (outcome := attempt(sql.SQL(way).format(sql.Identifier("flowfabric", name)))) != DENIED
    }
    assert reached == {}


def test_views_are_for_those_who_may_read(
    role: str, db: Connection, attempt: Callable[[Statement], str]
) -> None:
    views = db.execute(
        "select relname from pg_class where relnamespace = 'flowfabric'::regnamespace and relkind = 'v'"
    ).fetchall()
    outcomes = {
        name: attempt(sql.SQL("select * from {}").format(sql.Identifier("flowfabric", name)))
        for (name,) in views
    }
    assert outcomes == dict.fromkeys(outcomes, "done" if role in VIEWERS else DENIED)


def test_no_role_can_raise_itself(attempt: Callable[[Statement], str]) -> None:
    outcomes = {statement: attempt(sql.SQL(statement)) for statement in ESCALATIONS}
    assert outcomes == dict.fromkeys(ESCALATIONS, DENIED)


def test_a_role_cannot_become_another_one(role: str, attempt: Callable[[Statement], str]) -> None:
    others = [other for other in ROLES if other != role and role != "admin"]
    outcomes = {other: attempt(sql.SQL(f"set local role flowfabric_{other}")) for other in others}
    assert outcomes == dict.fromkeys(others, DENIED)
