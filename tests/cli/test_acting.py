"""Commands that change something: what they do, what they say, and what the engine refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowfabric_client.client import Client
from tests.cli.support import CommandLine, create, failed, flow, running
from tests.support.cluster import Connection
from tests.suspension.support import (
    Waitpoint,
    install_key,
    lease,
    open_pending,
    public_state,
    single,
    suspend,
)


def state_of(client: Client, execution_id: str) -> str | None:
    return client.read_execution_state(execution_id)


def test_cancel_ends_an_execution_once(flowfabric: CommandLine, client: Client) -> None:
    execution_id = create(client)
    assert flowfabric.json("cancel", execution_id, "--reason", "twice")["cancelled_from"] == "runnable"
    found = client.describe_execution(execution_id)
    assert found is not None
    assert (found.public_state, found.cancellation_reason) == ("cancelled", "twice")

    refused = flowfabric.json("cancel", execution_id, exit_code=1)
    assert refused["code"] == "execution_not_active"
    assert refused["details"]["execution_id"] == execution_id
    assert "is cancelled" in flowfabric.text("cancel", create(client))


def test_cancel_of_a_bare_uuid_ends_a_flow(flowfabric: CommandLine, client: Client) -> None:
    done = flowfabric.json("cancel", str(flow(client)), "--members", "all")
    assert done["cancelled_count"] == 2
    assert done["cancellation_policy"] == "cancel_all"
    assert "0 of 2 members now" in flowfabric.text("cancel", str(flow(client)), "--members", "none")


def test_replay_runs_an_ended_execution_once_more(flowfabric: CommandLine, client: Client) -> None:
    execution_id = failed(client)
    assert (
        flowfabric.json("replay", execution_id, "--reason", "fixed", "--by", "ada")["public_state"]
        == "waiting"
    )
    assert "execution_not_terminal" in flowfabric.error("replay", execution_id, exit_code=1)
    assert "replay 1." in flowfabric.text("replay", failed(client))


def test_replay_of_a_completed_execution_needs_force_and_says_what_is_lost(
    flowfabric: CommandLine, client: Client, db: Connection
) -> None:
    handle = running(client)
    client.complete_execution(**handle.arguments(), result=b"paid")
    message = flowfabric.error("replay", handle.execution_id, exit_code=1)
    assert "replay_needs_force" in message
    assert "flowfabric replay --force" in message
    kept = client.get_execution_result(handle.execution_id)
    assert kept is not None
    assert kept.result == b"paid"

    said = flowfabric.text("replay", handle.execution_id, "--force", "--by", "ada", "--reason", "wrong rate")
    assert "Its result is given up." in said
    assert state_of(client, handle.execution_id) == "waiting"
    ((details, login),) = db.execute(
        "select details, session_user from flowfabric.ff_operator_event where event_type = 'replayed'"
    ).fetchall()
    assert (details["login"], details["requested_by"], details["reason"]) == (login, "ada", "wrong rate")


def test_priority_moves_a_waiting_execution(flowfabric: CommandLine, client: Client) -> None:
    execution_id = create(client)
    assert flowfabric.json("priority", execution_id, "7") == {"old_priority": 0, "new_priority": 7}
    assert "has priority 9; it had 7" in flowfabric.text("priority", execution_id, "9")


def test_an_operator_resumes_unblocks_and_revokes(
    flowfabric: CommandLine, client: Client, db: Connection
) -> None:
    install_key(db)
    (waitpoint,) = suspend(db, lease(db), single())
    assert flowfabric.json("executions", "resume", waitpoint.execution_id)["public_state"] == "waiting"

    blocked = create(client)
    client.block_execution_for_admission(blocked, "waiting_for_budget")
    assert "is waiting" in flowfabric.text("executions", "unblock", blocked)

    handle = running(client)
    revoke = ("executions", "revoke", handle.execution_id, "--reason", "hangs")
    assert flowfabric.json(*revoke)["outcome"] == "revoked"
    assert "has no lease to revoke" in flowfabric.text(*revoke)


def test_a_lane_is_opened_and_closed(flowfabric: CommandLine, client: Client) -> None:
    assert flowfabric.json("lanes", "create", "mail")["outcome"] == "registered"
    assert "was there already" in flowfabric.text("lanes", "create", "mail")
    for command, lane_state in (("pause", "paused"), ("drain", "draining"), ("disable", "disabled")):
        assert f"is {lane_state}" in flowfabric.text("lanes", command, "mail", "--reason", "night")
        (lane,) = client.list_lanes()
        assert (lane.lane_state, lane.state_reason) == (lane_state, "night")
    assert flowfabric.json("lanes", "resume", "mail")["previous_state"] == "disabled"
    assert "was already active" in flowfabric.text("lanes", "resume", "mail")


def test_a_worker_is_drained_resumed_and_forgotten(flowfabric: CommandLine, client: Client) -> None:
    client.register_worker("ada", "ada-1")
    assert flowfabric.json("workers", "drain", "ada-1", "--reason", "deploy") == {"outcome": "draining"}
    assert "was already draining" in flowfabric.text("workers", "drain", "ada-1")
    assert "deploy" in flowfabric.text("workers", "show", "ada-1")
    assert "is taking work" in flowfabric.text("workers", "resume", "ada-1")
    assert "is forgotten" in flowfabric.text("workers", "forget", "ada-1")
    assert client.list_workers(include_lapsed=True) == []


def test_a_budget_is_created_and_reset(flowfabric: CommandLine, client: Client) -> None:
    options = ("--scope", "tenant=7", "--hard", "tokens=400", "--soft", "cents=9", "--reset-every", "1d")
    assert flowfabric.json("budgets", "create", "a", *options)["outcome"] == "created"
    limits = {row.dimension: (row.hard_limit, row.soft_limit) for row in client.get_budget_usage("a")}
    assert limits == {"tokens": (400, 0), "cents": (0, 9)}
    assert client.get_budget_status("a").reset_interval_ms == 86_400_000
    assert "stays as it is" in flowfabric.text("budgets", "create", "a", *options)
    assert flowfabric.json("budgets", "reset", "a")["reset_count"] == 1


def test_a_quota_is_created(flowfabric: CommandLine, client: Client) -> None:
    options = ("--starts", "100", "--window", "2m", "--running", "5", "--jitter", "250ms")
    assert flowfabric.json("quotas", "create", "a", *options)["outcome"] == "created"
    found = client.get_quota_policy("a")
    assert found is not None
    assert (found.requests_per_window_seconds, found.max_requests_per_window) == (120, 100)
    assert (found.active_concurrency_cap, found.jitter_ms) == (5, 250)
    assert "stays as it is" in flowfabric.text("quotas", "create", "a", *options)


def test_keys_are_rotated_and_listed_by_name_only(flowfabric: CommandLine, client: Client) -> None:
    assert "keys rotate" in flowfabric.text("keys", "list")
    assert "Key first signs" in flowfabric.text("keys", "rotate", "first")
    assert flowfabric.json("keys", "rotate", "second", "--grace", "7d")["previous_kid"] == "first"
    assert "was installed before; second signs" in flowfabric.text("keys", "rotate", "first")
    assert flowfabric.json("keys", "rotate")["outcome"] == "rotated"
    listed = flowfabric.json("keys", "list")["items"]
    assert {row["kid"] for row in listed} >= {"first", "second"}
    assert all("secret" not in name for row in listed for name in row)


def test_the_position_of_a_consumer_is_listed_moved_and_forgotten(
    flowfabric: CommandLine, client: Client
) -> None:
    assert "No consumer" in flowfabric.text("consumers", "list")
    client.cancel_execution(create(client), "x", source="operator_override")
    stored = client.event_position("completion")
    client.commit_event_cursor("billing", "completion", stored)
    (listed,) = flowfabric.json("consumers", "list")["items"]
    assert (listed["consumer"], listed["stream"], listed["cursor"]) == ("billing", "completion", stored)
    assert "billing" in flowfabric.text("consumers", "list")
    moved = ("consumers", "rewind", "billing", "--to", "start", "--reason", "again")
    assert flowfabric.json(*moved)["outcome"] == "set"
    assert "was already at v1:0:0:0" in flowfabric.text(*moved)
    (listed,) = flowfabric.json("consumers", "list")["items"]
    assert (listed["cursor"], listed["behind_rows"]) == ("v1:0:0:0", 1)
    assert "is at" in flowfabric.text("consumers", "rewind", "billing", "--to", stored)
    assert "is deleted" in flowfabric.text("consumers", "forget", "billing")
    assert "stored no position" in flowfabric.error("consumers", "forget", "billing", exit_code=3)
    assert "stored no position" in flowfabric.error(
        "consumers", "rewind", "billing", "lease", "--to", "tail", exit_code=3
    )
    assert flowfabric.run("consumers", "rewind", "billing", "--to", "nowhere").exit_code == 2


@pytest.fixture
def waitpoint(db: Connection) -> Waitpoint:
    """The one waitpoint of a suspended execution."""
    install_key(db)
    return suspend(db, lease(db), single())[0]


def test_a_signal_takes_its_token_from_the_environment_a_file_or_standard_input(
    flowfabric: CommandLine, db: Connection, tmp_path: Path
) -> None:
    install_key(db)
    file = tmp_path / "token"
    for number, source in enumerate(("env", "file", "stdin", "option"), start=1):
        (waitpoint,) = suspend(db, lease(db, number), single())
        token = waitpoint.waitpoint_token
        file.write_text(f"{token}\n")
        option = {"env": (), "file": ("--token", f"@{file}"), "stdin": ("--token", "-")}
        done = flowfabric.json(
            "signal",
            waitpoint.execution_id,
            "approved",
            '{"by": "ada"}',
            "--waitpoint",
            str(waitpoint.waitpoint_id),
            *option.get(source, ("--token", token)),
            env={"FLOWFABRIC_TOKEN": token} if source == "env" else {},
            input=f"{token}\n" if source == "stdin" else None,
        )
        assert done["effect"] == "resume_condition_satisfied"
        assert public_state(db, number) == "waiting"


def test_a_wrong_token_is_refused_and_not_shown(flowfabric: CommandLine, waitpoint: Waitpoint) -> None:
    args = ("signal", waitpoint.execution_id, "approved", "--waitpoint", str(waitpoint.waitpoint_id))
    result = flowfabric.run(*args, "--token", "kid-1:s3cret")
    assert result.exit_code == 1
    assert "invalid_token" in result.stderr
    assert "s3cret" not in result.output


def test_a_signal_under_the_same_key_is_delivered_once(flowfabric: CommandLine, waitpoint: Waitpoint) -> None:
    args = (
        *("signal", waitpoint.execution_id, "approved", "--waitpoint", str(waitpoint.waitpoint_id)),
        *("--token", waitpoint.waitpoint_token, "--key", "click-1", "--from", "ada"),
    )
    assert "is delivered" in flowfabric.text(*args)
    assert "had been delivered" in flowfabric.text(*args)


def test_a_signal_before_the_suspension_is_kept_for_it(flowfabric: CommandLine, db: Connection) -> None:
    install_key(db)
    fence = lease(db)
    early = open_pending(db, fence, "wpk:approval")
    args = ("signal", early.execution_id, "approved", "--waitpoint", str(early.waitpoint_id))
    assert flowfabric.json(*args, "--token", early.waitpoint_token)["outcome"] != "duplicate"
    suspend(db, fence, single(), waitpoint_ids=[early.waitpoint_id], use_pending=True)
    assert public_state(db) != "suspended"


def test_an_operator_answers_the_only_open_waitpoint_without_a_token(
    flowfabric: CommandLine, db: Connection, waitpoint: Waitpoint
) -> None:
    assert "is delivered" in flowfabric.text("signal", waitpoint.execution_id, "approved", "--as-operator")
    assert public_state(db) == "waiting"
    assert "no open waitpoint" in flowfabric.error(
        "signal", waitpoint.execution_id, "approved", "--as-operator", exit_code=3
    )


def test_tick_runs_what_is_due(flowfabric: CommandLine, client: Client) -> None:
    assert {run["status"] for run in flowfabric.json("tick")["scanners"]} == {"ran"}
    assert flowfabric.json("tick", "--scanner", "lease_expiry")["scanners"][0]["status"] == "not_due"
    forced = flowfabric.json("tick", "--scanner", "lease_expiry", "--force")["scanners"]
    assert [(run["scanner"], run["status"]) for run in forced] == [("lease_expiry", "ran")]
    assert "lease_expiry" in flowfabric.text("tick", "--scanner", "lease_expiry", "--force")
    assert "unknown" in flowfabric.error("tick", "--scanner", "nonsense", exit_code=2)


def test_tick_says_that_a_scanner_failed(flowfabric: CommandLine, db: Connection) -> None:
    db.execute("alter table flowfabric.ff_lane_floor rename to ff_lane_floor_gone")
    result = flowfabric.run("tick", "--json")
    assert result.exit_code == 1
    assert '"failed"' in result.stdout


def test_a_value_that_the_engine_calls_invalid_ends_with_2(flowfabric: CommandLine) -> None:
    for args in (
        ("executions", "show", "nonsense"),
        ("why", "nonsense"),
        ("lanes", "create", "x" * 100),
        ("run", ""),
        ("events", "--from", "nonsense"),
    ):
        assert flowfabric.error(*args, exit_code=2).startswith("Error: invalid_")
