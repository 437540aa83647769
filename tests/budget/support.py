"""Leases that spend, and what the budgets say afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from tests.support.cluster import Connection
from tests.support.engine import Row, call

BUDGET = "tokens-of-acme"


def execution_id(number: int) -> str:
    """The id of an execution; ids ascend with their numbers."""
    return f"{{fp:86}}:{UUID(int=number)}"


@dataclass(frozen=True)
class Spender:
    """A lease holder and its calls on a budget; `fence` names the execution and the lease."""

    fence: Row = field(hash=False)

    @classmethod
    def start(cls, connection: Connection, number: int, *, lease_ttl_ms: int = 30_000) -> Spender:
        """Create an execution and take a lease on it."""
        call(connection, "ff_create_execution", execution_kind="test", execution_id=execution_id(number))
        claim = call(
            connection,
            "ff_issue_grant_and_claim",
            execution_id=execution_id(number),
            lease_ttl_ms=lease_ttl_ms,
            worker_id="worker",
            worker_instance_id=f"worker-{number}",
        )
        return cls.of_claim(claim)

    @classmethod
    def of_claim(cls, claim: Row) -> Spender:
        """The holder of a lease that a claim has just given."""
        return cls({name: claim[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")})

    @property
    def id(self) -> str:
        """The id of its execution."""
        return str(self.fence["execution_id"])

    def report(self, connection: Connection, amount: int, *, dedup_key: str | None = None) -> Row:
        return call(
            connection,
            "ff_report_usage_and_check",
            budget_id=BUDGET,
            dimensions=["tokens"],
            deltas=[amount],
            dedup_key=dedup_key,
            **self.fence,
        )

    def spend(self, connection: Connection, amount: int, *, budget_id: str = BUDGET) -> Row:
        return call(
            connection,
            "ff_record_spend",
            budget_id=budget_id,
            dimensions=["tokens"],
            deltas=[amount],
            **self.fence,
        )

    def reserve(self, connection: Connection, amount: int, key: str, *, budget_id: str = BUDGET) -> Row:
        return call(
            connection,
            "ff_reserve_budget",
            budget_id=budget_id,
            dimensions=["tokens"],
            amounts=[amount],
            reservation_key=key,
            **self.fence,
        )

    def settle(self, connection: Connection, key: str, actual: int, *, budget_id: str = BUDGET) -> Row:
        return call(
            connection,
            "ff_settle_reservation",
            budget_id=budget_id,
            reservation_key=key,
            dimensions=["tokens"],
            actuals=[actual],
            **self.fence,
        )

    def release(self, connection: Connection, key: str, *, budget_id: str = BUDGET) -> Row:
        return call(
            connection, "ff_release_reservation", budget_id=budget_id, reservation_key=key, **self.fence
        )

    def complete(self, connection: Connection) -> Row:
        return call(connection, "ff_complete_execution", **self.fence)


def create_budget(connection: Connection, hard_limit: int, *, budget_id: str = BUDGET, **labels: Any) -> Row:
    """Define a budget with one limit on tokens."""
    return call(
        connection,
        "ff_create_budget",
        budget_id=budget_id,
        scope_type="tenant",
        scope_id="acme",
        dimensions=["tokens"],
        hard_limits=[hard_limit],
        soft_limits=[0],
        **labels,
    )


def usage(connection: Connection, budget_id: str = BUDGET) -> tuple[int, int]:
    """What is used and what is set aside."""
    row = call(connection, "ff_get_budget_usage", budget_id=budget_id)
    return row["current_value"], row["reserved_value"]


def public_state(connection: Connection, spender: Spender) -> str:
    return str(call(connection, "ff_read_execution_info", execution_id=spender.id)["public_state"])


def broken_invariants(connection: Connection) -> list[Row]:
    """What the engine finds wrong with its own tables."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("select i.* from flowfabric.ff_check_invariants() as i").fetchall()
