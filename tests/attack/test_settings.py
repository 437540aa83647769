"""What a caller may set for its session must not change what the engine does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import psycopg
import pytest
from psycopg.types.string import TextLoader

from tests.attack.calling import Call, answer
from tests.attack.catalogue import public_functions
from tests.attack.values import Values
from tests.attack.world import build_world
from tests.support.cluster import Cluster, Connection

READ_ONLY_SERVER = "ZU005"
READ_ONLY_TRANSACTION = "25006"

#: How values are written and read.
FORMATS = {
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "backslash_quote": "on",
    "array_nulls": "off",
    "bytea_output": "escape",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Pacific/Chatham",
    "extra_float_digits": "-15",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "lc_numeric": "C",
    "lc_time": "C",
    "lc_monetary": "C",
    "xmloption": "document",
    "plpgsql.extra_errors": "all",
    "plpgsql.check_asserts": "off",
}
#: How statements are planned and run. What is wrongly declared parallel safe fails under the last two.
PLANS = {
    "enable_indexscan": "off",
    "enable_hashjoin": "off",
    "enable_sort": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "work_mem": "64kB",
    "row_security": "off",
    "check_function_bodies": "off",
    "force_parallel_mode": "on",
    "debug_parallel_query": "on",
}
#: Isolation, which an engine built on READ COMMITTED must bear.
ISOLATION = {"default_transaction_isolation": "serializable"}

#: A literal of SQL, with the letter before it that makes a backslash special by intention.
_LITERAL = re.compile(r"(?P<prefix>[eE]?)'(?P<body>(?:[^']|'')*)'")
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True)
class Usual:
    """A database with something of every kind in it, and what some calls come to in an ordinary session."""

    dsn: str
    calls: list[Call]
    outcomes: list[tuple[str, str | None]]


@pytest.fixture(scope="module")
def usual(server: Cluster) -> Iterator[Usual]:
    with server.database(server.template) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        world, values = build_world(connection), Values(Random(3))
        calls = [
            Call(function, world.arguments(function, values))
            for function in public_functions(connection)
            if not function.is_procedure
        ]
        with connection.transaction():
            outcomes = [(call.function.name, answer(connection, call)) for call in calls]
        yield Usual(dsn, calls, outcomes)


def outcomes_with(usual: Usual, settings: dict[str, str]) -> list[tuple[str, str | None]]:
    """What the calls come to in a session with those of these settings that the server has."""
    with psycopg.connect(usual.dsn, autocommit=True) as connection:
        connection.execute("do 'begin end'")  # now the settings of plpgsql are known
        # The driver reads times in the form ISO only; what counts is the time, in the form of this session.
        connection.adapters.register_loader("timestamptz", TextLoader)
        for name, value in settings.items():
            connection.execute(
                "select set_config(s.name, %s, false) from pg_settings as s where s.name = %s", [value, name]
            )
        with connection.transaction():
            return [(call.function.name, answer(connection, call)) for call in usual.calls]


@pytest.mark.parametrize("settings", [FORMATS, PLANS, ISOLATION], ids=["formats", "plans", "isolation"])
def test_a_setting_changes_nothing(usual: Usual, settings: dict[str, str]) -> None:
    assert outcomes_with(usual, settings) == usual.outcomes


def test_a_read_only_session_reads_and_is_refused_what_writes(usual: Usual) -> None:
    seen = outcomes_with(usual, {"default_transaction_read_only": "on"})
    changed = dict(now for was, now in zip(usual.outcomes, seen, strict=True) if was != now)
    assert set(changed.values()) == {READ_ONLY_TRANSACTION, READ_ONLY_SERVER}
    assert not changed.keys() & {
        "ff_check_invariants",
        "ff_doctor",
        "ff_metrics",
        "ff_list_settings",
        "ff_why",
    }
    assert {"ff_cancel_flow", "ff_set_setting"} <= changed.keys()


def test_no_literal_of_a_function_depends_on_standard_conforming_strings(db: Connection) -> None:
    sources = db.execute(
        "select oid::regprocedure::text, prosrc from pg_proc where pronamespace = 'flowfabric'::regnamespace"
    )
    wrong = [
        (name, literal["body"])
        for name, source in sources.fetchall()
        for literal in _LITERAL.finditer(_COMMENT.sub("", source))
        if "\\" in literal["body"] and not literal["prefix"]
    ]
    assert wrong == []
