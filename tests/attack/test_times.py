"""Every time that a caller can give is within the year 9999, or refused; and none breaks a reader.

The parameters come from the system catalogue: a list by hand could forget one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.attack.bases import accepted_call
from tests.attack.calling import Call, Outcome, perform
from tests.attack.catalogue import Function, Parameter, public_functions
from tests.attack.values import array_literal
from tests.attack.world import NOW_MS, POLICY, VOCABULARY, World, build_world
from tests.conftest import Connect
from tests.support.cluster import Connection

LAST_MS = 253_402_300_799_999
LONGEST_MS = 31_536_000_000_000
TOO_LATE = (2**63 - 1, 2**62, LAST_MS + 1)
TOO_EARLY = (-1, -(2**63))

#: Where a number is not refused, because it means something: what is only compared has no range, and a number
#: of milliseconds in 32 bits is less than a month.
MEANINGS: dict[tuple[str, str], str] = {
    ("ff_create_execution", "dedup_ttl_ms"): "below 0: the key is looked up and not recorded",
    ("ff_create_executions", "dedup_ttl_ms"): "below 0: the key is looked up and not recorded",
    ("ff_list_expired_leases", "as_of_ms"): "compared",
    ("ff_list_expired_leases", "after_expires_at_ms"): "compared",
    ("ff_list_suspended", "after_suspended_at_ms"): "compared",
    ("ff_scan_eligible", "after_created_at_ms"): "compared",
    ("ff_timestamp", "ms"): "shown as the nearest instant",
}

_INSTANTS = """
    select c.relname, a.attname
    from pg_class as c
    join pg_attribute as a on a.attrelid = c.oid
    where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'r' and a.attnum > 0
        and not a.attisdropped and a.atttypid = 'bigint'::regtype
        and (a.attname like '%\\_ms' or a.attname = 'last_summary_update_at')
    order by 1, 2
"""
_READER = re.compile(r"ff_(list|describe|get|read|observe)_|ff_(why|doctor|metrics|queue_stats|event_lag)$")
#: Time zones in which the last day of the year 9999 and the first of 1970 are in other years.
_ZONES = ("Pacific/Kiritimati", "Etc/GMT+12")


def is_time(parameter: Parameter) -> bool:
    name = parameter.name
    return name.endswith(("_ms", "_seconds")) or name == "ms"


def is_32_bits(parameter: Parameter) -> bool:
    return parameter.sql_type.startswith("integer")


def is_typed(outcome: Outcome) -> bool:
    """Whether a call was refused as an argument, as a whole or in all of its items."""
    if outcome.error is not None:
        return (outcome.error.diag.sqlstate or "").startswith("ZV")
    return outcome.refuses_every_item and all(
        row["sqlstate"].startswith("ZV") for row in outcome.item_refusals
    )


class Engine:
    """A world in one transaction, and what can be read of it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.world: World = build_world(connection)
        self.functions = [f for f in public_functions(connection) if not f.is_procedure]
        self.instants: list[tuple[str, str]] = connection.execute(_INSTANTS).fetchall()
        self.views = [
            name
            for (name,) in connection.execute(
                "select relname from pg_class where relkind = 'v'"
                " and relnamespace = 'flowfabric'::regnamespace order by 1"
            ).fetchall()
        ]

    def beyond_all_times(self) -> Iterator[str]:
        """The columns with an instant or a duration that nobody could have given."""
        for table, column in self.instants:
            row = self.connection.execute(
                f"select min({column}), max({column}) from flowfabric.{table}".encode()
            ).fetchone()
            assert row is not None
            if row[0] is not None and not 0 <= row[0] <= row[1] <= LAST_MS:
                yield f"{table}.{column} is {row}"

    def unreadable(self) -> Iterator[str]:
        """The views and readers that a client can no longer read."""
        for zone in _ZONES:
            self.connection.execute("select set_config('timezone', %s, true)", [zone])
            for view in self.views:
                yield from self._failure(f"select * from flowfabric.{view}", f"{view} in {zone}")
        for name, statement in self._readers():
            yield from self._failure(statement, name)

    def _readers(self) -> Iterator[tuple[str, str]]:
        """Every reader that needs no more than an execution or a flow, for all that there are."""
        for function in self.functions:
            required = [parameter.name for parameter in function.parameters if not parameter.is_optional]
            if not _READER.match(function.name):
                continue
            if not required:
                yield function.name, f"select * from flowfabric.{function.name}()"
            elif required == ["execution_id"]:
                yield (
                    function.name,
                    f"""select r.* from flowfabric.ff_exec_core as e
                    cross join lateral flowfabric.{function.name}(
                        flowfabric.ff_format_execution_id(e.partition_key, e.execution_id)) as r""",
                )
            elif required == ["flow_id"]:
                yield (
                    function.name,
                    f"""select r.* from flowfabric.ff_flow_core as f
                    cross join lateral flowfabric.{function.name}(f.flow_id) as r""",
                )

    def _failure(self, statement: str, name: str) -> Iterator[str]:
        self.connection.execute("savepoint reading")
        try:
            self.connection.execute(statement.encode()).fetchall()
        except psycopg.Error as error:
            yield f"{name}: {error.diag.sqlstate} {error}".splitlines()[0]
        self.connection.execute("rollback to savepoint reading; release savepoint reading")


@pytest.fixture
def engine(connect: Connect) -> Engine:
    """A world that is thrown away."""
    connection = connect(autocommit=False)
    connection.execute("set statement_timeout = '60s'")
    return Engine(connection)


def with_number(call: Call, parameter: Parameter, number: int) -> Call:
    """A call in which a number, or each of an array, is another one."""
    value = str(number)
    if parameter.sql_type.endswith("[]"):
        value = array_literal([str(number)] * 2)
    return Call(call.function, {**call.arguments, parameter.name: value})


def cases(function: Function) -> Iterator[tuple[Parameter, int]]:
    for parameter in filter(is_time, function.parameters):
        numbers = (2**31 - 1, -1, -(2**31)) if is_32_bits(parameter) else TOO_LATE + TOO_EARLY
        for number in numbers:
            yield parameter, number


def test_every_time_beyond_the_year_9999_is_refused_or_means_something(engine: Engine) -> None:
    wrong: list[str] = []
    seen: set[tuple[str, str]] = set()
    for function in engine.functions:
        if not any(map(is_time, function.parameters)):
            continue
        base = accepted_call(engine.connection, engine.world, function)
        for parameter, number in cases(function):
            seen.add((function.name, parameter.name))
            engine.connection.execute("savepoint before_case")
            call = with_number(base, parameter, number)
            outcome = perform(engine.connection, call, keep=True)
            has_meaning = (function.name, parameter.name) in MEANINGS or (
                is_32_bits(parameter) and number > 0
            )
            if not is_typed(outcome) and (outcome.error is not None or not has_meaning):
                wrong.append(f"{call}: {outcome.error or outcome.rows}"[:300])
            if outcome.error is None:
                wrong += [f"{call}: {finding}" for finding in engine.beyond_all_times()]
            engine.connection.execute("rollback to savepoint before_case; release savepoint before_case")
    assert not wrong, "\n".join(wrong[:20])
    assert seen >= MEANINGS.keys()
    assert len(seen) > 40


def test_the_last_instant_and_the_longest_duration_are_accepted_and_can_be_read(engine: Engine) -> None:
    accepted: set[str] = set()
    wrong: list[str] = []
    for function in engine.functions:
        if not any(map(is_time, function.parameters)):
            continue
        base = accepted_call(engine.connection, engine.world, function)
        for parameter in filter(is_time, function.parameters):
            for number in (LAST_MS, LONGEST_MS, LONGEST_MS // 1000, 2**31 - 1):
                if is_32_bits(parameter) and number >= 2**31:
                    continue
                engine.connection.execute("savepoint before_case")
                call = with_number(base, parameter, number)
                outcome = perform(engine.connection, call, keep=True)
                if outcome.error is None and not outcome.refuses_every_item:
                    accepted.add(f"{function.name}.{parameter.name}")
                    if number in (LAST_MS, LONGEST_MS):
                        wrong += [f"{call}: {finding}" for finding in engine.unreadable()]
                elif not is_typed(outcome):
                    wrong.append(f"{call}: {outcome.error}")
                engine.connection.execute("rollback to savepoint before_case; release savepoint before_case")
    assert not wrong, "\n".join(wrong[:20])
    assert {"ff_create_execution.delay_until_ms", "ff_create_budget.reset_interval_ms"} <= accepted


def fields_of(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of a document that are named like a time."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in pairs:
        if isinstance(value, dict | list):
            yield from fields_of(value, (*path, key))
        elif str(key).endswith("_ms"):
            yield (*path, key)


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a document with another value in one place."""
    copy = json.loads(json.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


@pytest.mark.parametrize("number", TOO_LATE + TOO_EARLY + (1e300,))
def test_times_in_documents_are_bounded_too(engine: Engine, number: float) -> None:
    functions = {function.name: function for function in engine.functions}
    (flow,) = VOCABULARY["flow"]
    # Its own fields, and those of the other form of a back-off.
    policy = {
        **POLICY,
        "retry_policy": {**POLICY["retry_policy"], "backoff": {"type": "fixed", "delay_ms": 1}},
    }
    calls = [
        Call(functions["ff_create_execution"], {"execution_kind": "k", "policy": json.dumps(document)})
        for base in (POLICY, policy)
        for document in (replaced(base, path, number) for path in fields_of(base))
    ]
    calls += [
        Call(functions["ff_submit_flow"], {"flow": json.dumps(replaced(flow, path, number))})
        for path in fields_of(flow)
    ]
    assert len(calls) > 12
    for call in calls:
        outcome = perform(engine.connection, call, keep=False)
        assert is_typed(outcome), f"{call}: {outcome.error}"


def test_settings_that_are_times_are_bounded(engine: Engine) -> None:
    names = [
        name
        for (name,) in engine.connection.execute("select name from flowfabric.ff_list_settings()").fetchall()
        if name.endswith("_ms")
    ]
    assert len(names) > 5
    (set_setting,) = (f for f in engine.functions if f.name == "ff_set_setting")
    for name in names:
        for number in (*TOO_LATE, *TOO_EARLY, LONGEST_MS + 1):
            call = Call(set_setting, {"name": name, "value": str(number)})
            assert is_typed(perform(engine.connection, call, keep=False)), call
        call = Call(set_setting, {"name": name, "value": str(LONGEST_MS)})
        assert perform(engine.connection, call, keep=False).error is None


@pytest.mark.parametrize("number", [2**63 - 1, 2**62, LAST_MS + 1, -1, -(2**63)])
def test_what_was_stored_by_other_means_breaks_no_reader(engine: Engine, number: int) -> None:
    wrong: list[str] = []
    written = 0
    for table in sorted({table for table, _ in engine.instants}):
        engine.connection.execute("savepoint before_table")
        for column in (column for owner, column in engine.instants if owner == table):
            engine.connection.execute("savepoint before_column")
            try:
                engine.connection.execute(f"update flowfabric.{table} set {column} = %s".encode(), [number])
                written += 1
            except psycopg.Error:
                # Some columns have a constraint of their own.
                engine.connection.execute("rollback to savepoint before_column")
        wrong += [f"{table}: {finding}" for finding in engine.unreadable()]
        engine.connection.execute("rollback to savepoint before_table; release savepoint before_table")
    assert not wrong, "\n".join(wrong[:20])
    assert written > len(engine.instants) * 0.9


def test_a_delay_to_the_end_of_time_is_explained(engine: Engine) -> None:
    row = engine.connection.execute(
        "select execution_id from flowfabric.ff_create_execution('k', p_delay_until_ms => %s)", [LAST_MS]
    ).fetchone()
    assert row is not None
    why = engine.connection.execute("select verdict, until_ms from flowfabric.ff_why(%s)", row).fetchone()
    assert why == ("delayed", LAST_MS)
    assert NOW_MS < LAST_MS
