"""The engine under test: calls in one transaction that is thrown away, and everything stored as one value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.support.cluster import Connection

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """How the engine refuses a call."""

    sqlstate: str
    code: str
    detail: Row

    def __str__(self) -> str:
        return f"{self.sqlstate} {self.code} {self.detail}"


class Engine:
    """Calls the engine's functions as its roles do.

    All of it happens in one transaction that is rolled back, the clock included: whatever an example did, the
    next one starts from an empty database and pays nothing for it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._argument_types = _argument_types(connection)
        connection.rollback()

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Forget whatever happens inside."""
        with self._connection.transaction(force_rollback=True):
            yield

    def rollback(self) -> None:
        """Forget everything that happened."""
        self._connection.rollback()

    def has(self, function: str) -> bool:
        """Whether this installation has a function."""
        return function in self._argument_types

    def freeze(self, now_ms: int) -> None:
        """Let the engine's clock stand at an instant."""
        self._connection.execute("select flowfabric.ff_test_set_clock('freeze', %s)", [now_ms])

    def call(self, function: str, arguments: Mapping[str, Any], *, role: str) -> list[Row] | Refusal:
        """Call a function by the names of its parameters, with the rights of one of FlowFabric's roles.

        A call stands in a savepoint of its own, as it would for a caller with rows of its own: a refusal
        leaves the transaction usable.
        """
        statement, parameters = self._statement(function, arguments)
        self._connection.execute(f"savepoint before_call; set local role flowfabric_{role}")
        try:
            with self._connection.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(statement, parameters).fetchall()
        except psycopg.Error as error:
            self._connection.execute("rollback to savepoint before_call; release savepoint before_call")
            return Refusal(error.diag.sqlstate or "", error.diag.message_primary or "", _detail(error))
        self._connection.execute("release savepoint before_call; set local role none")
        return rows

    def execute(self, statement: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Change a row behind the engine's back, to build a state that no function of this area reaches."""
        self._connection.execute(statement, arguments)

    def stored(self) -> dict[str, Row]:
        """Everything stored about every execution, by execution id."""
        with self._connection.cursor() as cursor:
            return dict(cursor.execute(_STORED).fetchall())

    def findings(self) -> list[Row]:
        """What `ff_check_invariants` has to say."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute("select f.* from flowfabric.ff_check_invariants() as f").fetchall()

    def _statement(self, function: str, arguments: Mapping[str, Any]) -> tuple[sql.Composed, Row]:
        types = self._argument_types[function]
        named = [
            # The cast is the parameter's own type: a list of strings may stand for text[], uuid[] or jsonb[].
            sql.SQL("{} => {}::{}").format(
                sql.Identifier(f"p_{name}"), sql.Placeholder(name), sql.SQL(types[f"p_{name}"])
            )
            for name in arguments
        ]
        statement = sql.SQL("select r.* from flowfabric.{}({}) as r").format(
            sql.Identifier(function), sql.SQL(", ").join(named)
        )
        values = {name: _adapted(value, types[f"p_{name}"]) for name, value in arguments.items()}
        return statement, values


def _adapted(value: Any, type_name: str) -> Any:
    if value is not None and type_name == "jsonb":
        return Jsonb(value)
    if value is not None and type_name == "jsonb[]":
        return [_adapted(item, "jsonb") for item in value]
    return value


def _detail(error: psycopg.Error) -> Row:
    text = error.diag.message_detail or ""
    # An error of PostgreSQL itself has prose here; its code is none of the catalogue's anyway.
    return dict(json.loads(text)) if text.startswith("{") else {"prose": text}


def _argument_types(connection: Connection) -> dict[str, dict[str, str]]:
    rows = connection.execute(
        """
        select p.proname, array_agg(a.name), array_agg(format_type(a.type, null))
        from pg_proc as p
        cross join lateral unnest(p.proargnames, p.proargtypes::oid[]) as a (name, type)
        where p.pronamespace = 'flowfabric'::regnamespace and starts_with(p.proname, 'ff_')
        group by p.proname"""
    )
    return {function: dict(zip(names, types, strict=True)) for function, names, types in rows.fetchall()}


_STORED = """
    select
        flowfabric.ff_format_execution_id(e.partition_key, e.execution_id),
        jsonb_build_object(
            'core', to_jsonb(e) - array['attempt_is_deferred', 'small_payload'] || jsonb_build_object(
                'public_state', flowfabric._ff_public_state(
                    e.lifecycle_phase, e.terminal_outcome, e.eligibility_state),
                -- Tags that are set later have a row, and a time, of their own.
                'last_mutation_at_ms', greatest(e.last_mutation_at_ms, (
                    select t.updated_at_ms from flowfabric.ff_exec_tag as t
                    where t.partition_key = e.partition_key and t.execution_id = e.execution_id))),
            'required_capabilities', (
                select to_jsonb(s.tokens) from flowfabric.ff_capability_set as s
                where s.capability_set_id = e.capability_set_id),
            'note', (
                select to_jsonb(n) from flowfabric.ff_exec_note as n
                where n.partition_key = e.partition_key and n.execution_id = e.execution_id),
            -- A small payload has no row, or one for its result.
            'payload', (
                select
                    '{"payload_encoding": null, "policy": null, "tags": {}, "creator_identity": null,
                      "result": null, "result_encoding": null}' || coalesce(to_jsonb(p), '{}')
                    || jsonb_build_object(
                        'partition_key', e.partition_key, 'execution_id', e.execution_id,
                        'payload', coalesce(nullif(e.small_payload, ''), p.payload),
                        'tags', flowfabric._ff_all_tags(e.partition_key, e.execution_id, p.tags))
                from (select) as one
                left join flowfabric.ff_exec_payload as p
                    on p.partition_key = e.partition_key and p.execution_id = e.execution_id),
            'attempts', (
                select coalesce(jsonb_agg(to_jsonb(a) order by a.attempt_index), '[]')
                from flowfabric._ff_all_attempts() as a
                where a.partition_key = e.partition_key and a.execution_id = e.execution_id),
            'grant', (
                select to_jsonb(g) from flowfabric.ff_claim_grant as g
                where g.partition_key = e.partition_key and g.execution_id = e.execution_id),
            'idempotency', (
                select coalesce(jsonb_agg(to_jsonb(i) order by i.idempotency_key), '[]')
                from flowfabric.ff_execution_idempotency as i
                where i.partition_key = e.partition_key and i.execution_id = e.execution_id),
            'lease_events', (
                select coalesce(jsonb_agg(to_jsonb(v) - 'xact_id' order by v.event_id), '[]')
                from flowfabric.ff_lease_event as v
                where v.partition_key = e.partition_key and v.execution_id = e.execution_id),
            'completion_events', (
                select coalesce(jsonb_agg(to_jsonb(v) - 'xact_id' order by v.event_id), '[]')
                from flowfabric.ff_completion_event as v
                where v.partition_key = e.partition_key and v.execution_id = e.execution_id),
            'operator_events', (
                -- The login and the role are those of the test, not of the model.
                select coalesce(jsonb_agg(
                    (to_jsonb(v) - 'xact_id')
                    || jsonb_build_object('details', v.details - '{login,role}'::text[])
                    order by v.event_id), '[]')
                from flowfabric.ff_operator_event as v
                where v.partition_key = e.partition_key and v.execution_id = e.execution_id))
    from flowfabric.ff_exec_core as e"""
