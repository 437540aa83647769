"""Hostile texts in every text, text[] and jsonb argument: they stay data, whatever they look like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import psycopg
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.attack.calling import Call, objections, perform
from tests.attack.catalogue import Function, Parameter, documented_codes, public_functions
from tests.attack.effort import ROUNDS, SEED
from tests.attack.values import HOSTILE_TEXTS, Values, array_literal
from tests.attack.world import World, build_world
from tests.support.cluster import Cluster, Connection

MARKER = "untouched"
MEGABYTE = 1024 * 1024
TEXTUAL = ("text", "text[]", "jsonb", "jsonb[]")

#: Pieces of SQL, of patterns and of other notations, in any order and number, among any characters but NUL.
hostile_texts = st.lists(
    st.sampled_from([text for text in HOSTILE_TEXTS if len(text) < 100])
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    max_size=4,
).map("".join)


class Target:
    """The engine with something of every kind in it, beside a table that nobody may touch."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        connection.execute("create table attack_marker as select %s::text as content", [MARKER])
        self.world: World = build_world(connection)
        self.documented = documented_codes()
        self.places: list[tuple[Function, Parameter]] = [
            (function, parameter)
            for function in public_functions(connection)
            for parameter in function.parameters
            if parameter.sql_type in TEXTUAL
        ]

    def attack(self, function: Function, parameter: Parameter, text: str, random: Random) -> list[str]:
        """Make a sensible call with a text in one place; say what is wrong with what came of it."""
        arguments = self.world.arguments(function, Values(random))
        arguments[parameter.name] = placed(text, parameter.sql_type)
        call = Call(function, arguments)
        found = objections(call, perform(self.connection, call, keep=False), self.documented)
        content = self.connection.execute("select content from attack_marker").fetchall()
        return found if content == [(MARKER,)] else [*found, f"{call}: the marker is {content}"]


def placed(text: str, sql_type: str) -> str:
    """A text as a value of a type: itself, as an element, or as key and value of an object."""
    match sql_type:
        case "text":
            return text
        case "text[]":
            return array_literal([text, text])
        case "jsonb":
            return json.dumps({text: text, "members": [{text: text}]})
        case _:
            return array_literal([json.dumps({text: text}), json.dumps(text)])


@pytest.fixture(scope="module")
def target(server: Cluster) -> Iterator[Target]:
    """One for all examples: every call is taken back."""
    with server.database(server.template) as dsn, psycopg.connect(dsn) as connection:
        yield Target(connection)


@seed(SEED)
@settings(
    max_examples=20 * ROUNDS,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data(), text=hostile_texts, choice=st.integers(0, 2**16))
def test_a_hostile_text_stays_data(target: Target, data: st.DataObject, text: str, choice: int) -> None:
    function, parameter = data.draw(st.sampled_from(target.places))
    assert target.attack(function, parameter, text, Random(choice)) == []


def test_a_megabyte_of_text_meets_documented_refusals_only(target: Target) -> None:
    random = Random(1)
    wrong = [
        finding
        for function, parameter in target.places
        for finding in target.attack(function, parameter, "x" * MEGABYTE, random)
    ]
    assert wrong == []
