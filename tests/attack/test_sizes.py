"""Everything that a caller can store has a limit: 10 MB in any argument are refused, cut, or only compared.

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
from tests.attack.world import POLICY, VOCABULARY, build_world
from tests.conftest import Connect
from tests.support.cluster import REPOSITORY

SIZE = 10_000_000
TEXT = "x" * SIZE
#: A document has many places, and a tenth of that is too much in each of them.
PART = "x" * (SIZE // 10)
BYTES = "\\x" + "ab" * SIZE
MANY = 100_000
#: What one value of a row may take where a limit is in force; only payloads and results are larger.
LARGEST_FIELD = 66_000
#: What the answer to a refusal may take.
LARGEST_DETAIL = 2_000

#: Where a text is only compared with what is stored, or read and thrown away.
COMPARED = {
    ("ff_claim_execution", "grant_key"),  # These three: its hash is stored.
    ("ff_claim_resumed_execution", "grant_key"),
    ("ff_reclaim_execution", "grant_key"),
    ("ff_append_frame", "patch_kind"),  # Only of a summary frame, which has one kind.
    ("ff_list_ended_suspensions", "waitpoint_key"),
    ("ff_list_executions", "lane_id"),
    ("ff_list_executions", "namespace"),
    ("ff_list_executions", "tag_value"),
    ("ff_list_lanes", "after"),
    ("ff_list_workers", "after_namespace"),
    ("ff_list_workers", "after_worker_instance_id"),
    ("ff_read_events", "event_types"),
    ("ff_read_events", "namespace"),
    ("ff_read_events", "tag_key"),
    ("ff_read_events", "tag_value"),
    ("ff_record_signal_auth_failure", "execution_id"),  # Counted, not stored.
    ("ff_set_edge_group_policy", "on_satisfied"),  # Answered as an outcome.
    ("ff_set_edge_group_policy", "policy_kind"),
    ("ff_unblock_execution", "expected_blocking_reason"),
}
#: Where a text is cut: a worker can always report a failure, and a scheduler why it blocked something.
CUT = {
    ("ff_block_execution_for_admission", "blocking_detail"),
    ("ff_fail_execution", "failure_category"),
    ("ff_fail_execution", "failure_reason"),
    ("ff_fail_executions", "failure_categories"),
    ("ff_fail_executions", "failure_reasons"),
    ("ff_set_lane_state", "reason"),
}
#: Where the limit is not that of the argument alone: part of a key, and a document of a form of its own.
PARTS = {("ff_deliver_approval_signal", "idempotency_suffix"), ("ff_suspend_execution", "resume_condition")}
#: Payloads that are within their limit of 16 MiB.
LARGE = {
    ("ff_complete_execution", "result"),
    ("ff_complete_executions", "results"),
    ("ff_create_execution", "payload"),
    ("ff_create_executions", "payloads"),
    ("ff_submit_flow", "flow"),
}

_COLUMNS = """
    select c.relname, array_agg(a.attname order by a.attnum)
    from pg_class as c
    join pg_attribute as a on a.attrelid = c.oid
    where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'r' and a.attnum > 0
        and not a.attisdropped and a.attlen = -1
        and (c.relname, a.attname) not in (('ff_exec_payload', 'payload'), ('ff_exec_payload', 'result'))
    group by c.relname
"""


class Engine:
    """A world in one transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.world = build_world(connection)
        self.functions = [f for f in public_functions(connection) if not f.is_procedure]
        self.columns = dict(connection.execute(_COLUMNS).fetchall())

    def too_large(self) -> Iterator[str]:
        """The fields of rows that are larger than any limit, as text."""
        for table, columns in self.columns.items():
            sizes = ", ".join(f"max(octet_length({column}::text))" for column in columns)
            row = self.connection.execute(f"select {sizes} from flowfabric.{table}".encode()).fetchone()
            assert row is not None
            for column, size in zip(columns, row, strict=True):
                if size is not None and size > LARGEST_FIELD:
                    yield f"{table}.{column} has {size} bytes"


@pytest.fixture
def engine(connect: Connect) -> Engine:
    """A world that is thrown away."""
    connection = connect(autocommit=False)
    connection.execute("set statement_timeout = '60s'")
    return Engine(connection)


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place of a document, with what is there."""
    yield path, document
    if isinstance(document, dict | list):
        pairs = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in pairs:
            yield from places(value, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a document with another value in one place."""
    if not path:
        return value
    copy = json.loads(json.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


def swollen(document: Any) -> Iterator[Any]:
    """A document with too much in one of its places: a text, a key, very many keys or elements."""
    for path, value in places(document):
        if isinstance(value, str):
            yield replaced(document, path, PART)
        elif isinstance(value, dict):
            yield replaced(document, path, {**value, PART: "x"})
            yield replaced(document, path, {**value, **{f"a.x{n}": "x" for n in range(MANY)}})
        elif isinstance(value, list):
            yield replaced(document, path, [*value, *(f"x{n}" for n in range(MANY))])


def large_values(parameter: Parameter, given: str | None) -> Iterator[str]:
    """Values of a type that are too large for anything."""
    match parameter.sql_type:
        case "text":
            yield TEXT
        case "bytea":
            yield BYTES
        case "text[]" | "bytea[]":
            count = 2 if given is None else given.count(",") + 1
            yield array_literal([BYTES if parameter.sql_type == "bytea[]" else TEXT] * count)
            yield array_literal([f"x{n}" for n in range(MANY)])
        case "jsonb" | "jsonb[]":
            base = {"team.name": "x"} if "tags" in parameter.name else POLICY
            if parameter.name == "flow":
                (base,) = VOCABULARY["flow"]
            elif parameter.name == "resume_condition":
                base = VOCABULARY["resume_condition"][1]
            elif parameter.name.startswith("retry"):
                base = POLICY["retry_policy"]
            for document in swollen(base):
                text = json.dumps(document)
                yield text if parameter.sql_type == "jsonb" else array_literal([text] * 2)


def is_refused(outcome: Outcome) -> bool:
    """Whether a call was refused as a whole or in all of its items, with something that says why."""
    if outcome.error is not None:
        return (outcome.error.diag.sqlstate or "").startswith("ZV")
    return outcome.refuses_every_item


def judged(engine: Engine, call: Call, parameter: Parameter) -> Iterator[str]:
    """What is wrong with a call in which one argument is too large."""
    place = (call.function.name, parameter.name)
    engine.connection.execute("savepoint before_case")
    outcome = perform(engine.connection, call, keep=True)
    if outcome.error is not None:
        detail = outcome.error.diag.message_detail or ""
        is_answered = place in COMPARED and (outcome.error.diag.sqlstate or "").startswith("Z")
        if not is_refused(outcome) and not is_answered:
            yield f"{call}: {outcome.error.diag.sqlstate} {outcome.error}"[:400]
        elif len(detail) > LARGEST_DETAIL:
            yield f"{call}: the refusal has {len(detail)} characters"
    elif not is_refused(outcome):
        if place not in COMPARED | CUT | LARGE:
            yield f"{call}: accepted: {str(outcome.rows)[:200]}"
        yield from (f"{call}: {finding}" for finding in engine.too_large())
    engine.connection.execute("rollback to savepoint before_case; release savepoint before_case")


def texts(function: Function) -> Iterator[Parameter]:
    for parameter in function.parameters:
        if parameter.sql_type.startswith(("text", "bytea", "jsonb")):
            yield parameter


def test_ten_megabytes_in_any_argument_are_refused_cut_or_only_compared(engine: Engine) -> None:
    wrong: list[str] = []
    seen: set[tuple[str, str]] = set()
    for function in engine.functions:
        base = accepted_call(engine.connection, engine.world, function) if any(texts(function)) else None
        for parameter in texts(function):
            assert base is not None
            seen.add((function.name, parameter.name))
            for value in large_values(parameter, base.arguments.get(parameter.name)):
                call = Call(function, {**base.arguments, parameter.name: value})
                wrong += judged(engine, call, parameter)
    assert not wrong, "\n".join(wrong[:40])
    assert seen >= COMPARED | CUT | LARGE
    assert len(seen) > 150


#: A row of the table of limits in docs/client.md: arguments, the number, what else is said.
_LIMIT = re.compile(
    r"^\| (?P<arguments>[^|]+) \| (?P<limit>\d+)(?P<unit>[^|]*) \| (?P<note>[^|]*)\|$", re.MULTILINE
)
_ARGUMENTS = re.compile(r"(`[a-z_.]+`(, )?)+")


def documented_limits() -> dict[str, tuple[int, bool]]:
    """The limit of each argument that is a text or a document, and whether a longer one is cut."""
    text = (REPOSITORY / "docs/client.md").read_text(encoding="utf-8")
    table = text[text.index("\n## Limits\n") : text.index("\n## PgBouncer\n")]
    return {
        name: (int(row["limit"]), row["note"].startswith("cut"))
        for row in _LIMIT.finditer(table)
        if _ARGUMENTS.fullmatch(row["arguments"])
        for name in re.findall(r"`([a-z_.]+)`", row["arguments"])
    }


def limit_of(function: Function, parameter: Parameter) -> tuple[int, bool] | None:
    limits = documented_limits()
    name = parameter.name
    singulars = [name, name.removesuffix("s"), re.sub("ies$", "y", name)]
    for key in (f"{function.name.removeprefix('ff_')}.{name}", *singulars):
        if key in limits:
            return limits[key]
    return None


def sized(parameter: Parameter, size: int, count: int) -> str:
    """A value of a size, in one or in each element of an array."""
    match parameter.sql_type:
        case "text":
            return "x" * size
        case "text[]":
            return array_literal(["x" * size] * count)
        case "jsonb":
            return json.dumps({"a.b": "x" * size})
        case _:
            return array_literal([json.dumps({"a.b": "x" * size})] * count)


def reason_of(outcome: Outcome) -> str | None:
    """Why an argument was refused; None if it was accepted or something else was wrong."""
    if outcome.error is not None:
        state, detail = (
            outcome.error.diag.sqlstate or "",
            json.loads(outcome.error.diag.message_detail or "{}"),
        )
    elif outcome.refuses_every_item:
        state, detail = outcome.rows[0]["sqlstate"], outcome.rows[0]["detail"]
    else:
        return None
    return f"{state} {detail.get('reason', '')}".strip() if state.startswith("ZV") else None


def test_the_table_of_limits_is_that_of_the_engine(engine: Engine) -> None:
    wrong: list[str] = []
    used: set[str] = set()
    for function in engine.functions:
        base = accepted_call(engine.connection, engine.world, function) if any(texts(function)) else None
        for parameter in texts(function):
            assert base is not None
            if parameter.sql_type.startswith("bytea") or (function.name, parameter.name) in COMPARED | PARTS:
                continue
            is_json = parameter.sql_type.startswith("jsonb")
            given = base.arguments.get(parameter.name)
            count = 2 if given is None or is_json else given.count('"') // 2 or given.count(",") + 1

            def outcome_of(
                size: int, base: Call = base, parameter: Parameter = parameter, count: int = count
            ) -> Outcome:
                value = sized(parameter, size, count)
                call = Call(base.function, {**base.arguments, parameter.name: value})
                return perform(engine.connection, call, keep=False)

            limit = limit_of(function, parameter)
            if limit is None:
                if reason_of(outcome_of(1)) is None:
                    wrong.append(f"{function.name}.{parameter.name} is not in the table")
                continue
            size, is_cut = limit
            # The brackets of a document count too.
            allowance = 40 if is_json else 0
            below, above = reason_of(outcome_of(size - allowance)), reason_of(outcome_of(size + 1))
            if above == below and not is_cut:
                wrong.append(
                    f"{function.name}.{parameter.name}: {size} and {size + 1} bytes are both {below}"
                )
            if is_cut and above is not None:
                wrong.append(f"{function.name}.{parameter.name}: {size + 1} bytes are {above}, not cut")
            used.add(parameter.name)
    assert not wrong, "\n".join(wrong[:40])
    assert len(used) > 40


@pytest.mark.parametrize(
    ("number", "statement"),
    [
        (65536, "select flowfabric._ff_smallest_value('max_payload_bytes')"),
        (16777216, "select value from flowfabric.ff_list_settings() where name = 'max_payload_bytes'"),
        (268435456, "select max_value from flowfabric._ff_known_settings() where name = 'max_payload_bytes'"),
        (253402300799999, "select flowfabric._ff_last_ms()"),
        (31536000000000, "select flowfabric._ff_longest_ms()"),
    ],
)
def test_the_numbers_of_the_table_are_those_of_the_engine(
    engine: Engine, number: int, statement: str
) -> None:
    assert engine.connection.execute(statement.encode()).fetchone() == (number,)
    text = (REPOSITORY / "docs/client.md").read_text(encoding="utf-8")
    assert str(number) in text[text.index("\n## Limits\n") : text.index("\n## PgBouncer\n")]


def test_payloads_results_and_frames_end_at_their_setting(engine: Engine) -> None:
    engine.connection.execute("select flowfabric.ff_set_setting('max_payload_bytes', 100000)")
    functions = {function.name: function for function in engine.functions}
    for name, argument in (
        ("ff_create_execution", "payload"),
        ("ff_create_executions", "payloads"),
        ("ff_complete_execution", "result"),
        ("ff_complete_executions", "results"),
        ("ff_append_frame", "payload"),
    ):
        base = accepted_call(engine.connection, engine.world, functions[name])
        extra = (
            {"max_payload_bytes": "2000000000", "stream_mode": "durable"} if name == "ff_append_frame" else {}
        )
        for size, is_accepted in ((100_000, True), (100_001, False)):
            value = "\\x" + "61" * size
            arguments = {
                **base.arguments,
                **extra,
                argument: array_literal([value] * 2) if argument[-1] == "s" else value,
            }
            outcome = perform(engine.connection, Call(functions[name], arguments), keep=False)
            refused = [row["code"] for row in outcome.item_refusals if row["code"] == "payload_too_large"]
            if outcome.error is not None:
                refused = [outcome.error.diag.message_primary or ""]
            assert bool(refused) is not is_accepted, f"{name}: {size}: {outcome.error}"
            assert set(refused) <= {"payload_too_large"}
