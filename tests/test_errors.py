"""Errors: the catalogue in its four forms, and how a driver's exception becomes one of ours."""

from __future__ import annotations

import copy
import pickle
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import psycopg_pool
import pytest
from psycopg import sql

from flowfabric_client import errors
from flowfabric_client._error_codes import ERROR_CODES, ErrorCode
from flowfabric_client._reconcile import EndingCall, Reconciled, reconcile

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = Path("plpgsql/00_core/errors.sql")
GENERATED = ("flowfabric_client/_error_codes.py", "flowfabric_client/errors.py", "docs/errors.md")

CATEGORY_EXCEPTIONS: dict[str, type[errors.FlowFabricError]] = {
    "NotFound": errors.NotFoundError,
    "Validation": errors.ValidationError,
    "Contention": errors.ContentionError,
    "Conflict": errors.ConflictError,
    "State": errors.StateError,
    "Corruption": errors.CorruptionError,
    "Unavailable": errors.UnavailableError,
    "Bug": errors.InternalBugError,
}


def raised(db: psycopg.Connection[Any], query: str, *arguments: object) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        db.execute(query, arguments)
    return caught.value


def raised_with(db: psycopg.Connection[Any], sqlstate: str, **fields: str) -> psycopg.Error:
    """The driver's exception for an arbitrary SQLSTATE, as it comes out of a function on the server."""
    options = {"errcode": sqlstate, "message": "some message", **fields}
    using = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.SQL(name), sql.Literal(value)) for name, value in options.items()
    )
    with pytest.raises(psycopg.Error) as caught:
        db.execute(sql.SQL("do $do$ begin raise exception using {}; end $do$").format(using))
    assert caught.value.sqlstate == sqlstate
    return caught.value


def native(sqlstate: str, message: str = "some message") -> psycopg.Error:
    return psycopg.errors.lookup(sqlstate)(message)


def exception_of(entry: ErrorCode) -> type[errors.FlowFabricError]:
    error = errors.from_refusal(entry.sqlstate, entry.code)
    assert error is not None
    return type(error)


# The catalogue


def test_the_constants_equal_the_installed_catalogue(db: psycopg.Connection[Any]) -> None:
    installed = db.execute("select * from flowfabric.ff_list_error_codes()").fetchall()
    assert sorted(astuple(entry) for entry in ERROR_CODES) == sorted(installed)


def test_every_code_has_an_exception_of_its_own_under_its_category() -> None:
    exceptions = {entry.code: exception_of(entry) for entry in ERROR_CODES}
    assert len(set(exceptions.values())) == len(ERROR_CODES) == 118
    for entry in ERROR_CODES:
        exception = exceptions[entry.code]
        assert (exception.code, exception.sqlstate) == (entry.code, entry.sqlstate)
        assert (exception.category, exception.retry_class, exception.hint) == astuple(entry)[2:]
        assert issubclass(exception, CATEGORY_EXCEPTIONS[entry.category])
        assert getattr(errors, exception.__name__) is exception


def test_an_exception_is_named_after_its_code() -> None:
    assert issubclass(errors.StaleLeaseError, errors.LeaseLostError)
    assert errors.StaleLeaseError.code == "stale_lease"
    assert errors.InternalError.code == "internal_error"
    # The mechanical names of these two are those of their categories.
    assert errors.CorruptValueError.code == "corruption"
    assert errors.OperationUnavailableError.code == "unavailable"


def test_four_codes_mean_that_the_lease_is_lost() -> None:
    lost = {entry.code for entry in ERROR_CODES if issubclass(exception_of(entry), errors.LeaseLostError)}
    assert lost == {"stale_lease", "lease_expired", "lease_revoked", "stale_owner_cannot_append"}


def test_the_document_lists_every_code_with_its_exception() -> None:
    row = re.compile(r"^\| `(Z\w{4})` \| `(\w+)` \| (\w+) \| `(\w+)` \| (.+) \|$", re.MULTILINE)
    listed = row.findall((ROOT / "docs/errors.md").read_text(encoding="utf-8"))
    assert listed == [
        (entry.sqlstate, entry.code, entry.retry_class, exception_of(entry).__name__, entry.hint)
        for entry in ERROR_CODES
    ]


def sql_sources() -> Iterator[tuple[str, str]]:
    for folder in ("plpgsql", "migrations"):
        for path in sorted((ROOT / folder).rglob("*.sql")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_every_code_that_a_function_names_is_in_the_catalogue() -> None:
    use = re.compile(r"_ff_(?:raise|error_detail|error_sqlstate)\(\s*'([^']*)'")
    named = {(name, code) for name, text in sql_sources() for code in use.findall(text)}
    assert "invalid_input" in {code for _, code in named}
    known = {entry.code for entry in ERROR_CODES}
    assert {(name, code) for name, code in named if code not in known} == set()


def test_no_function_builds_a_sqlstate_by_hand() -> None:
    raise_with_state = re.compile(r"\berrcode\b|\braise\s+(?:exception\s+)?sqlstate\b", re.IGNORECASE)
    # A procedure that commits cannot be security definer, so its caller may not execute _ff_raise. It takes
    # the state from the catalogue all the same.
    assert [name for name, text in sql_sources() if raise_with_state.search(text)] == [
        CATALOGUE.as_posix(),
        "plpgsql/90_scanner/ff_tick_loop.sql",
    ]


def load_catalogue(db: psycopg.Connection[Any], text: str) -> None:
    with db.transaction():
        db.execute(text.encode())


def row_versions(db: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    query = "select code, xmin::text, xmax::text, ctid::text from flowfabric.ff_error_code order by code"
    return db.execute(query).fetchall()


def test_loading_an_unchanged_catalogue_touches_no_row(db: psycopg.Connection[Any]) -> None:
    before = row_versions(db)
    load_catalogue(db, (ROOT / CATALOGUE).read_text(encoding="utf-8"))
    assert row_versions(db) == before


def test_loading_the_catalogue_corrects_only_what_differs(db: psycopg.Connection[Any]) -> None:
    untouched = [row for row in row_versions(db) if row[0] not in ("terminal", "corruption")]
    db.execute("update flowfabric.ff_error_code set hint = 'Edited by hand.' where code = 'terminal'")
    db.execute("delete from flowfabric.ff_error_code where code = 'corruption'")
    db.execute(
        "insert into flowfabric.ff_error_code (code, sqlstate, category, retry_class, hint)"
        " values ('no_longer_listed', 'ZS999', 'State', 'terminal', 'Gone.')"
    )
    load_catalogue(db, (ROOT / CATALOGUE).read_text(encoding="utf-8"))
    test_the_constants_equal_the_installed_catalogue(db)
    assert [row for row in row_versions(db) if row[0] not in ("terminal", "corruption")] == untouched


def test_a_number_cannot_move_to_another_code(db: psycopg.Connection[Any]) -> None:
    text = (ROOT / CATALOGUE).read_text(encoding="utf-8")
    assert "('stale_lease', 'ZS001'" in text
    with pytest.raises(psycopg.errors.UniqueViolation):
        load_catalogue(db, text.replace("('stale_lease', 'ZS001'", "('old_lease', 'ZS001'"))


# From the driver's exception to ours


def test_every_code_arrives_as_its_own_exception(db: psycopg.Connection[Any]) -> None:
    for entry in ERROR_CODES:
        cause = raised(
            db, "select flowfabric._ff_raise(%s, 'ff_test', %s)", entry.code, '{"limit": 3, "none": null}'
        )
        error = errors.from_psycopg(cause)
        assert type(error) is exception_of(entry)
        assert (error.code, error.sqlstate) == (entry.code, entry.sqlstate)
        assert (error.category, error.retry_class, error.hint) == astuple(entry)[2:]
        assert error.details == {"code": entry.code, "fn": "ff_test", "limit": 3}
        assert error.function == "ff_test"
        assert error.__cause__ is cause


def test_an_error_describes_itself(db: psycopg.Connection[Any]) -> None:
    cause = raised(
        db, "select flowfabric._ff_raise('stale_lease', 'ff_renew_lease', %s)", '{"lease_epoch": 8}'
    )
    assert str(errors.from_psycopg(cause)) == (
        "stale_lease (ZS001, ff_renew_lease): Stop: the work belongs to another worker now. [lease_epoch=8]"
    )


@pytest.mark.parametrize("detail", ["not JSON", "[1, 2]", "7", ""])
def test_a_detail_that_is_no_json_object_gives_no_details(db: psycopg.Connection[Any], detail: str) -> None:
    error = errors.from_psycopg(raised_with(db, "ZS001", message="stale_lease", detail=detail))
    assert type(error) is errors.StaleLeaseError
    assert error.details == {}
    assert error.function is None


def test_the_sqlstate_decides_and_not_the_message(db: psycopg.Connection[Any]) -> None:
    error = errors.from_psycopg(raised_with(db, "ZS001", message="lease_expired"))
    assert type(error) is errors.StaleLeaseError
    assert error.code == "stale_lease"


def test_an_unknown_number_of_a_known_class_becomes_the_category(db: psycopg.Connection[Any]) -> None:
    default_retry_class = {
        "ZN": "terminal",
        "ZV": "terminal",
        "ZC": "retryable",
        "ZK": "terminal",
        "ZS": "terminal",
        "ZX": "terminal",
        "ZU": "terminal",
        "ZB": "bug",
    }
    for sqlstate_class, retry_class in default_retry_class.items():
        sqlstate = f"{sqlstate_class}999"
        cause = raised_with(
            db, sqlstate, message="from_the_future", detail='{"fn": "ff_new", "a": 1}', hint="Upgrade."
        )
        error = errors.from_psycopg(cause)
        category = next(entry.category for entry in ERROR_CODES if entry.sqlstate.startswith(sqlstate_class))
        assert type(error) is CATEGORY_EXCEPTIONS[category]
        assert (error.code, error.sqlstate, error.category) == ("from_the_future", sqlstate, category)
        assert (error.retry_class, error.hint, error.function) == (retry_class, "Upgrade.", "ff_new")
        assert error.details == {"fn": "ff_new", "a": 1}


def test_a_message_that_is_no_code_names_no_code(db: psycopg.Connection[Any]) -> None:
    error = errors.from_psycopg(raised_with(db, "ZS999", message="Something else happened"))
    assert type(error) is errors.StateError
    assert error.code is None


def test_an_unknown_class_is_a_transport_error(db: psycopg.Connection[Any]) -> None:
    error = errors.from_psycopg(raised_with(db, "ZZ001", message="stale_lease"), idempotent=True)
    assert isinstance(error, errors.TransportError)
    assert not error.retryable
    assert (error.code, error.category, error.sqlstate) == (None, None, "ZZ001")


def test_a_refused_batch_item_becomes_the_exception_of_its_code() -> None:
    error = errors.from_refusal(
        "ZS001", "stale_lease", {"code": "stale_lease", "fn": "ff_complete_executions", "lease_epoch": 8}
    )
    assert type(error) is errors.StaleLeaseError
    assert error.function == "ff_complete_executions"
    assert error.details["lease_epoch"] == 8
    assert errors.from_refusal("40001", "stale_lease") is None


def test_the_catalogue_answers_by_sqlstate() -> None:
    entry = errors.code_of("ZN006")
    assert entry is not None
    assert (entry.code, entry.retry_class) == ("stream_not_found", "expected")
    assert errors.code_of("ZN999") is None
    assert errors.retry_class_of("ZN006") == "expected"
    assert errors.retry_class_of("ZC999") == "retryable"
    assert errors.retry_class_of("40001") is None


# Errors that are not ours


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "55P03"])
def test_lasting_concurrency_failures_are_retry_exhausted(sqlstate: str) -> None:
    error = errors.from_psycopg(native(sqlstate), attempts=4, function="ff_test")
    assert type(error) is errors.RetryExhaustedError
    assert isinstance(error, errors.ContentionError)
    assert error.sqlstate == "ZC018"
    assert error.details == {"attempts": 4, "last_sqlstate": sqlstate}
    assert error.function == "ff_test"


@pytest.mark.parametrize("sqlstate", ["08000", "08006", "57P01", "57P02"])
def test_a_lost_connection_may_be_repeated_only_if_the_call_is_idempotent(sqlstate: str) -> None:
    for idempotent in (False, True):
        error = errors.from_psycopg(native(sqlstate), idempotent=idempotent)
        assert type(error) is errors.TransportError
        assert error.retryable is idempotent
        assert (error.code, error.sqlstate) == (None, sqlstate)


@pytest.mark.parametrize("sqlstate", ["08001", "08004", "57P03"])
def test_a_server_that_turned_the_client_away_ran_nothing(sqlstate: str) -> None:
    error = errors.from_psycopg(native(sqlstate))
    assert isinstance(error, errors.TransportError)
    assert error.retryable


def test_a_connection_that_cannot_be_made_ran_nothing(tmp_path: Path) -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect(host=str(tmp_path), port=1)
    for cause in (refused.value, psycopg.errors.ConnectionTimeout("connection timeout expired")):
        error = errors.from_psycopg(cause)
        assert isinstance(error, errors.TransportError)
        assert error.retryable
        assert error.sqlstate is None


def test_a_caller_may_know_that_nothing_was_sent() -> None:
    error = errors.from_psycopg(psycopg.OperationalError("the connection is closed"), statement_sent=False)
    assert isinstance(error, errors.TransportError)
    assert error.retryable


def test_a_killed_connection_leaves_the_outcome_unknown(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as victim:
        with psycopg.connect(database, autocommit=True) as killer:
            killer.execute("select pg_terminate_backend(%s, 10000)", (victim.info.backend_pid,))
        for _ in ("the statement that meets the dead connection", "the one after it"):
            error = errors.from_psycopg(raised(victim, "select 1"))
            assert isinstance(error, errors.TransportError)
            assert not error.retryable


def test_a_statement_timeout_is_a_client_timeout(db: psycopg.Connection[Any]) -> None:
    db.execute("set statement_timeout = '20ms'")
    error = errors.from_psycopg(raised(db, "select pg_sleep(10)"), idempotent=True)
    assert type(error) is errors.ClientTimeoutError
    assert error.sqlstate == "57014"


@pytest.mark.parametrize(
    "cause",
    [
        native("53300"),
        native("53200"),
        psycopg_pool.PoolTimeout("couldn't get a connection"),
        psycopg_pool.TooManyRequests("the pool has too many requests waiting"),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_a_full_server_or_pool_is_resource_exhausted(cause: psycopg.Error) -> None:
    error = errors.from_psycopg(cause)
    assert type(error) is errors.ResourceExhaustedError
    assert error.retryable
    assert error.retry_after_ms is None


def test_a_closed_pool_does_not_open_by_repeating() -> None:
    error = errors.from_psycopg(psycopg_pool.PoolClosed("the pool is closed"), idempotent=True)
    assert isinstance(error, errors.TransportError)
    assert not error.retryable


def test_a_bad_value_is_invalid_input_with_the_original_message(db: psycopg.Connection[Any]) -> None:
    causes = {
        "22P02": raised(db, "select %s::uuid", "no uuid"),
        "22003": raised(db, "select 40000::smallint"),
        "23502": native("23502"),
        None: raised(db, "select %s::text", "a\0b"),
    }
    for sqlstate, cause in causes.items():
        error = errors.from_psycopg(cause)
        assert cause.sqlstate == sqlstate
        assert type(error) is errors.InvalidInputError
        assert (error.code, error.sqlstate) == ("invalid_input", "ZV001")
        message = cause.diag.message_primary or str(cause)
        assert error.details == {"reason": message}
        assert message in str(error)


@pytest.mark.parametrize("sqlstate", ["23505", "23503"])
def test_an_escaped_constraint_error_is_a_bug(sqlstate: str) -> None:
    error = errors.from_psycopg(native(sqlstate, 'violates constraint "ff_x_pkey"'))
    assert type(error) is errors.InternalError
    assert isinstance(error, errors.InternalBugError)
    assert error.details == {"reason": 'violates constraint "ff_x_pkey"'}


def test_a_broken_check_of_the_engine_is_an_invariant_violation(db: psycopg.Connection[Any]) -> None:
    cause = raised(db, "update flowfabric.ff_error_code set category = 'Weather'")
    error = errors.from_psycopg(cause)
    assert type(error) is errors.InvariantViolationError
    assert error.details == {"invariant": "ff_error_code_category_is_known"}


def test_a_broken_check_of_somebody_else_is_not_ours(db: psycopg.Connection[Any]) -> None:
    db.execute("create temporary table account (balance integer constraint solvent check (balance >= 0))")
    error = errors.from_psycopg(raised(db, "insert into account values (-1)"))
    assert isinstance(error, errors.TransportError)
    assert not error.retryable
    assert error.sqlstate == "23514"


def test_a_missing_execute_privilege_names_the_function(db: psycopg.Connection[Any]) -> None:
    db.execute("set role flowfabric_reader")
    error = errors.from_psycopg(raised(db, "select flowfabric._ff_raise('stale_lease', 'ff_test')"))
    assert type(error) is errors.PermissionDeniedError
    assert "_ff_raise" in str(error)
    assert (error.code, error.sqlstate) == (None, "42501")


def test_a_missing_function_table_or_schema_is_a_version_mismatch(db: psycopg.Connection[Any]) -> None:
    causes = {
        "42883": raised(db, "select flowfabric.ff_from_the_future()"),
        "42P01": raised(db, "select * from flowfabric.ff_from_the_future"),
        "3F000": raised(db, "select no_such_schema.ff_ping()"),
    }
    for sqlstate, cause in causes.items():
        error = errors.from_psycopg(cause)
        assert cause.sqlstate == sqlstate
        assert type(error) is errors.SchemaVersionMismatchError
        assert isinstance(error, errors.UnavailableError)


def test_a_write_in_a_read_only_transaction_says_where_to_go(db: psycopg.Connection[Any]) -> None:
    db.execute("set default_transaction_read_only = on")
    error = errors.from_psycopg(raised(db, "select flowfabric.ff_register_lane('x')"), function="ff_test")
    assert type(error) is errors.ReadOnlyServerError
    assert isinstance(error, errors.UnavailableError)
    assert (error.sqlstate, error.function) == ("ZU005", "ff_test")
    assert "Connect to the primary" in str(error)


@pytest.mark.parametrize(
    "cause",
    [
        native("XX000"),
        native("0A000"),
        native("42601"),
        psycopg.InterfaceError("the cursor is closed"),
        psycopg.ProgrammingError(),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_anything_else_is_a_transport_error_that_must_not_be_repeated(cause: psycopg.Error) -> None:
    error = errors.from_psycopg(cause, idempotent=True)
    assert type(error) is errors.TransportError
    assert not error.retryable
    assert str(error)
    assert error.__cause__ is cause


# Exceptions made in Python


def test_the_client_raises_a_code_with_its_catalogue_entry() -> None:
    error = errors.PayloadTooLargeError(details={"limit_bytes": 10, "actual_bytes": 11})
    assert (error.code, error.sqlstate, error.retry_class) == ("payload_too_large", "ZV006", "terminal")
    assert "Store the payload elsewhere" in str(error)
    assert error.details == {"limit_bytes": 10, "actual_bytes": 11}


def test_a_class_of_an_application_takes_no_code_away() -> None:
    class MyLeaseLostError(errors.StaleLeaseError):
        pass

    assert exception_of(next(entry for entry in ERROR_CODES if entry.code == "stale_lease")) is (
        errors.StaleLeaseError
    )
    assert MyLeaseLostError().code == "stale_lease"


@pytest.mark.parametrize(
    "error",
    [
        errors.StaleLeaseError(details={"lease_epoch": 8}, function="ff_renew_lease"),
        errors.StateError(code="from_the_future", sqlstate="ZS999", hint="Upgrade."),
        errors.TransportError("gone", retryable=True, sqlstate="57P01"),
        errors.ResourceExhaustedError("full", retry_after_ms=250),
        errors.StreamDisconnectedError("gone", cursor="v1:0:7:0"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_survives_copy_and_pickle(error: errors.FlowFabricError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_back_pressure_is_a_warning_that_can_be_made_an_error() -> None:
    with pytest.warns(errors.StreamBackpressure, match="slower"):
        warnings.warn(errors.StreamBackpressure("the consumer is slower than the stream"), stacklevel=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.StreamBackpressure)
        with pytest.raises(errors.FlowFabricError):
            warnings.warn(errors.StreamBackpressure("the consumer is slower than the stream"), stacklevel=1)


# Lost answers


@dataclass(frozen=True)
class Lease:
    lease_epoch: int
    attempt_id: UUID


LEASE = Lease(lease_epoch=7, attempt_id=UUID("00000000-0000-4000-8000-000000000002"))
MINE: dict[str, Any] = {"lease_epoch": 7, "attempt_id": "00000000-0000-4000-8000-000000000002"}
COMPLETED = {**MINE, "lifecycle_phase": "terminal", "terminal_outcome": "success"}
FAILED = {**MINE, "lifecycle_phase": "terminal", "terminal_outcome": "failed"}
CANCELLED = {**MINE, "lifecycle_phase": "terminal", "terminal_outcome": "cancelled"}
RETRYING = {
    "lease_epoch": 7,
    "lifecycle_phase": "runnable",
    "terminal_outcome": "none",
    "attempt_state": "pending_retry_attempt",
    "delay_until_ms": 1234,
}


def test_a_repeated_call_finds_out_that_its_first_answer_was_lost() -> None:
    assert reconcile("complete", COMPLETED, LEASE) == Reconciled("completed")
    assert reconcile("fail", FAILED, LEASE) == Reconciled("terminal_failed")
    assert reconcile("fail", RETRYING, LEASE) == Reconciled("retry_scheduled", 1234)
    assert reconcile("cancel", CANCELLED, LEASE) == Reconciled("cancelled")


def test_a_retry_that_became_due_has_an_unknown_time() -> None:
    promoted = {field: value for field, value in RETRYING.items() if field != "delay_until_ms"}
    assert reconcile("fail", promoted, LEASE) == Reconciled("retry_scheduled", None)


def test_a_cancel_without_a_lease_needs_only_the_outcome() -> None:
    by_another_attempt = {**CANCELLED, "lease_epoch": 8, "attempt_id": "00000000-0000-4000-8000-000000000003"}
    assert reconcile("cancel", by_another_attempt, None) == Reconciled("cancelled")
    assert reconcile("cancel", {"terminal_outcome": "failed"}, None) is None
    assert reconcile("cancel", {}, None) is None


def refusals_that_differ() -> Iterator[Any]:
    rows: tuple[tuple[EndingCall, dict[str, Any], tuple[str, ...]], ...] = (
        ("complete", COMPLETED, ("terminal_outcome", "lease_epoch", "attempt_id")),
        ("fail", FAILED, ("lifecycle_phase", "terminal_outcome", "lease_epoch", "attempt_id")),
        ("fail", RETRYING, ("lifecycle_phase", "attempt_state", "lease_epoch")),
        ("cancel", CANCELLED, ("terminal_outcome", "lease_epoch", "attempt_id")),
    )
    other = {
        "terminal_outcome": "expired",
        "lifecycle_phase": "suspended",
        "attempt_state": "attempt_interrupted",
        "lease_epoch": 8,
        "attempt_id": "00000000-0000-4000-8000-000000000003",
    }
    for call, details, deciding in rows:
        for field in deciding:
            name = f"{call} {details['lifecycle_phase']} {field}"
            yield pytest.param(call, {**details, field: other[field]}, id=f"{name} differs")
            without = {key: value for key, value in details.items() if key != field}
            yield pytest.param(call, without, id=f"{name} unknown")


@pytest.mark.parametrize(("call", "details"), list(refusals_that_differ()))
def test_a_refusal_that_differs_in_one_field_stands(call: EndingCall, details: dict[str, Any]) -> None:
    assert reconcile(call, details, LEASE) is None


@pytest.mark.parametrize("details", [COMPLETED, FAILED, CANCELLED, RETRYING])
def test_one_end_is_not_the_answer_to_another_call(details: dict[str, Any]) -> None:
    calls: tuple[EndingCall, ...] = ("complete", "fail", "cancel")
    assert sum(reconcile(call, details, LEASE) is not None for call in calls) == 1


def test_a_pause_of_the_same_worker_is_not_its_failure() -> None:
    delayed = {**RETRYING, "attempt_state": "attempt_interrupted"}
    assert reconcile("fail", delayed, LEASE) is None


@pytest.mark.parametrize(("call", "details"), [("complete", COMPLETED), ("fail", FAILED), ("fail", RETRYING)])
def test_only_a_cancel_can_be_reconciled_without_a_lease(call: EndingCall, details: dict[str, Any]) -> None:
    assert reconcile(call, details, None) is None


# The generator


def generate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/generate_docs.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the generator's files, to be spoilt."""
    for name in (CATALOGUE, *GENERATED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_generated_files_are_up_to_date() -> None:
    result = generate("--check")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", GENERATED)
def test_a_file_that_was_edited_is_reported_and_restored(checkout: Path, name: str) -> None:
    edit(checkout / name, "Stop: the work belongs to another worker now.", "Carry on.")
    result = generate("--check", "--root", checkout)
    assert result.returncode == 1
    assert result.stderr == f"{name} is out of date; run `python tools/generate_docs.py`.\n"

    assert generate("--root", checkout).returncode == 0
    assert (checkout / name).read_text(encoding="utf-8") == (ROOT / name).read_text(encoding="utf-8")


def test_a_new_code_makes_every_file_out_of_date(checkout: Path) -> None:
    edit(
        checkout / CATALOGUE,
        "    -- ZX, Corruption",
        "    ('lease_borrowed', 'ZS999', 'State', 'terminal', 'Don''t.'),\n    -- ZX, Corruption",
    )
    complaints = generate("--check", "--root", checkout).stderr.splitlines()
    assert [complaint.split()[0] for complaint in complaints] == list(GENERATED)
    assert generate("--root", checkout).returncode == 0
    module = (checkout / "flowfabric_client/errors.py").read_text(encoding="utf-8")
    assert 'class LeaseBorrowedError(StateError, code="lease_borrowed"):' in module
    assert "`lease_borrowed`, ZS999, terminal. Don't." in module


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("'ZS001'", "ZS001", "not five quoted texts"),
        ("'ZS001'", "'ZS002'", "listed twice"),
        ("'ZS001'", "'ZS000'", "ZS001 to ZS999"),
        ("'ZS001'", "'ZV999'", "ZS001 to ZS999"),
        ("'stale_lease'", "'StaleLease'", "not a snake-case code"),
        ("'stale_lease', 'ZS001', 'State'", "'stale_lease', 'ZS001', 'Weather'", "unknown category"),
        ("'ZS001', 'State', 'terminal'", "'ZS001', 'State', 'later'", "unknown retry class"),
        ("'Stop appending.'", "'stop appending'", "hint that is not"),
        ("with catalogue", "with codes", "has no list"),
    ],
)
def test_a_catalogue_that_cannot_be_right_is_refused(
    checkout: Path, old: str, new: str, complaint: str
) -> None:
    edit(checkout / CATALOGUE, old, new)
    result = generate("--root", checkout)
    assert result.returncode == 1
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1
    for name in GENERATED:
        assert (checkout / name).read_bytes() == (ROOT / name).read_bytes()


def test_a_symptom_has_a_remedy_and_names_only_codes_that_exist(checkout: Path) -> None:
    rows = re.findall(
        r"^\| ([^|]*) \| (?:`(\w+)`)? ?\| (.*) \|$",
        _symptom_table((ROOT / "docs/errors.md").read_text()),
        re.M,
    )
    assert len(rows) > 40
    by_code = {entry.code: entry for entry in ERROR_CODES}
    for _, code, remedy in rows:
        assert remedy
        assert not code or remedy == by_code[code].hint
    edit(checkout / CATALOGUE, "'lane_not_accepting'", "'lane_is_shut'")
    assert "names 'lane_not_accepting', which is no code" in generate("--root", checkout).stderr


def _symptom_table(document: str) -> str:
    after = document.partition("| What you see | Code | What to do |\n| --- | --- | --- |\n")[2]
    return after.partition("\n\n")[0] + "\n"
