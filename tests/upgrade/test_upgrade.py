"""A released schema with data of every kind becomes the current one: nothing is lost, and work goes on."""

from __future__ import annotations

import psycopg
import pytest

from flowfabric_client.install import InstallError, migrate
from tests.support.cluster import Connection
from tests.suspension.support import call, calls
from tests.upgrade.conftest import Installation
from tests.upgrade.contract import broken_promises, read_contract
from tests.upgrade.survival import lost, readings, schema_of, stored_rows
from tests.upgrade.world import World


def test_the_old_installation_has_data_of_every_kind(old: Installation) -> None:
    assert [table for table, rows in stored_rows(old.db).items() if not rows] == []
    states = {row["public_state"] for row in calls(old.db, "ff_list_executions", limit=1000)}
    vocabulary = old.db.execute("select unnest(enum_range(null::flowfabric.ff_public_state))::text")
    assert states == {state for (state,) in vocabulary}


def test_nothing_is_lost(old: Installation, upgraded: Installation) -> None:
    assert lost(stored_rows(old.db), stored_rows(upgraded.db)) == {}
    assert lost(readings(old.db, old.world), readings(upgraded.db, old.world)) == {}
    assert calls(upgraded.db, "ff_check_invariants") == []


def test_work_goes_on_with_what_was_handed_out_before(upgraded: Installation) -> None:
    upgraded.world.finish(upgraded.db)


def test_the_upgraded_schema_is_that_of_a_fresh_installation(upgraded: Installation, database: str) -> None:
    assert schema_of(upgraded.dsn) == schema_of(database)


def test_sessions_that_called_the_old_functions_go_on(old: Installation) -> None:
    with psycopg.connect(old.dsn, autocommit=True) as client:
        fence = old.world.fences["active"]
        # Often enough for the session to keep a plan of the old function.
        for _ in range(6):
            call(client, "ff_renew_lease", **fence)
        migrate(old.dsn)
        assert call(client, "ff_renew_lease", **fence)["outcome"] == "renewed"
        call(client, "ff_complete_execution", **fence)


def test_an_upgrade_gives_up_rather_than_keep_everybody_waiting_for_an_open_transaction(
    old: Installation,
) -> None:
    fence = old.world.fences["active"]
    with psycopg.connect(old.dsn) as reader:
        reader.execute("select from flowfabric.ff_exec_core limit 1")
        with pytest.raises(InstallError, match="lock timeout"):
            migrate(old.dsn, lock_timeout_ms=100)
        assert call(old.db, "ff_renew_lease", **fence)["outcome"] == "renewed"
        states = {row["public_state"] for row in calls(old.db, "ff_list_executions", limit=1000)}
        assert "active" in states
    migrate(old.dsn)
    assert call(old.db, "ff_complete_execution", **fence)["outcome"] == "completed"


def test_calls_of_the_old_client_are_still_understood(upgraded: Installation) -> None:
    assert [*broken_promises(upgraded.baseline.contract, read_contract(upgraded.db))] == []


def test_the_old_client_works_on_the_new_schema(old: Installation, db: Connection) -> None:
    """The world is built with calls of the first release; here they meet a fresh installation of today."""
    assert call(db, "ff_boot_check", required_version=old.baseline.schema_version)
    World.build(db).finish(db)


def test_the_contract_that_is_kept_is_that_of_the_schema_that_is_kept(old: Installation) -> None:
    assert read_contract(old.db) == old.baseline.contract
