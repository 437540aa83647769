"""Budgets: what a handler has used, and what it sets aside before it uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from flowfabric_client import rows
from flowfabric_client.errors import BudgetExceededError
from flowfabric_client.worker.job import Job
from flowfabric_client.worker.steps import Steps, insist

Amounts = Mapping[str, int]


def report(job: Job, budget_id: str, amounts: Amounts, key: str | None) -> Steps[rows.UsageReport]:
    """Book usage, once per key of the execution; without a key once per call, however often it is sent."""
    dedup_key = str(uuid4()) if key is None else f"{job.handle.execution_id}:{key}"
    answer: rows.UsageReport = yield from insist(
        job,
        lambda client: client.report_usage_and_check(
            budget_id, list(amounts), list(amounts.values()), dedup_key=dedup_key, **job.handle.arguments()
        ),
    )
    return answer


class OpenReservation:
    """An amount that is set aside for as long as a block runs."""

    def __init__(self, job: Job, budget_id: str, amounts: Amounts) -> None:
        self.budget_id = budget_id
        self.key = str(uuid4())
        """With `budget_id` what the client's methods want, for settling inside a transaction of yours."""
        self._job = job
        self._amounts = dict(amounts)
        self._is_open = False

    def reserve(self) -> Steps[None]:
        """Set the amounts aside.

        Raises:
            BudgetExceededError: a hard limit has no room for them.
        """
        answer: rows.Reservation = yield from insist(
            self._job,
            lambda client: client.reserve_budget(
                self.budget_id,
                list(self._amounts),
                list(self._amounts.values()),
                **self._job.handle.arguments(),
                reservation_key=self.key,
            ),
        )
        if answer.outcome == "hard_breach":
            raise BudgetExceededError(
                details={
                    "budget_id": answer.budget_id,
                    "dimension": answer.dimension,
                    "current_usage": answer.current_usage,
                    "reserved_usage": answer.reserved_usage,
                    "limit_value": answer.limit_value,
                    "action": answer.action,
                },
                function="ff_reserve_budget",
            )
        self._is_open = True

    def settle(self, actuals: Amounts) -> Steps[rows.UsageReport]:
        """Book what was used instead."""
        answer: rows.UsageReport = yield from insist(
            self._job,
            lambda client: client.settle_reservation(
                self.budget_id,
                self.key,
                list(actuals),
                list(actuals.values()),
                **self._job.handle.arguments(),
            ),
        )
        self._is_open = False
        return answer

    def give_back(self) -> Steps[Any]:
        """Give back what was not settled, unless the end of the lease does so."""
        job = self._job
        if self._is_open and job.is_held and job.completion == "none" and not job.cancelled.is_set():
            self._is_open = False
            yield from insist(
                job,
                lambda client: client.release_reservation(self.budget_id, self.key, **job.handle.arguments()),
            )
