"""The floor: what PostgreSQL itself can do, with one bare table and nothing promised."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from bench.systems.adapter import PAYLOAD, Connection, OnJob, SqlAdapter, connect, stamp

SCHEMA = """
    create table job (
        id bigint generated always as identity primary key,
        state text not null default 'waiting',
        payload bytea not null,
        created_at timestamptz not null default now(),
        started_at timestamptz,
        finished_at timestamptz);
    create index job_waiting on job (id) where state = 'waiting'"""
CREATE = "insert into job (payload) values (%s)"
CREATE_AND_NOTIFY = "with j as (insert into job (payload) values (%s)) select pg_notify('job', '')"
CREATE_MANY = "insert into job (payload) select %s from generate_series(1, %s)"
CLAIM = """
    update job set state = 'active', started_at = now()
    where id = (
        select id from job where state = 'waiting' order by id limit 1 for update skip locked)
    returning id, payload"""
CLAIM_MANY = """
    with next as (
        select id from job where state = 'waiting' order by id limit %s for update skip locked)
    update job set state = 'active', started_at = now() from next where job.id = next.id
    returning job.id, payload"""
COMPLETE = "update job set state = 'done', finished_at = now() where id = %s"
COMPLETE_MANY = "update job set state = 'done', finished_at = now() where id = any(%b)"
SUSPEND = "update job set state = 'suspended' where id = %s"
RESUME = "with j as (update job set state = 'waiting' where id = %s) select pg_notify('job', '')"
UNFINISHED = "select count(*) from job where state <> 'done'"
SEED = """
    insert into job (state, payload, started_at, finished_at)
    select %(state)s, %(payload)s, t, t
    from generate_series(1, %(count)s), (values (case when %(state)s = 'done' then now() end)) as v (t)"""


class Floor(SqlAdapter):
    _other: Connection | None = None

    @classmethod
    def version(cls) -> str:
        return "-"

    def install(self) -> None:
        with connect(self.dsn) as connection:
            connection.execute(SCHEMA, prepare=False)

    async def create(self, count: int) -> None:
        if count == 1:
            self.create_with_payload(PAYLOAD)
        else:
            self.connection.execute(CREATE_MANY, [PAYLOAD.encode(), count])

    def create_with_payload(self, payload: str) -> None:
        self.connection.execute(CREATE, [payload.encode()])

    async def create_stamped(self) -> None:
        self.connection.execute(CREATE_AND_NOTIFY, [stamp().encode()])

    async def claim(self, count: int) -> Sequence[Any]:
        if count == 1:
            return self.connection.execute(CLAIM).fetchall()
        return self.connection.execute(CLAIM_MANY, [count]).fetchall()

    async def complete(self, claimed: Sequence[Any]) -> None:
        if len(claimed) == 1:
            self.connection.execute(COMPLETE, [claimed[0][0]])
        else:
            self.connection.execute(COMPLETE_MANY, [[job[0] for job in claimed]])

    async def work(self, concurrency: int, on_job: OnJob, stop: asyncio.Event) -> None:  # noqa: ARG002
        """A loop on one connection that takes one job at a time, and listens when there is none."""
        with connect(self.dsn) as connection:
            connection.execute("listen job")
            while not stop.is_set():
                job = connection.execute(CLAIM).fetchone()
                if job is None:
                    for _ in connection.notifies(timeout=0.2, stop_after=1):
                        pass
                else:
                    on_job(job[1].decode())
                    connection.execute(COMPLETE, [job[0]])
                await asyncio.sleep(0)

    async def unfinished(self) -> int:
        return self.number(UNFINISHED)

    async def seed(self, waiting: int, finished: int) -> None:
        for state, count in (("done", finished), ("waiting", waiting)):
            self.connection.execute(SEED, {"state": state, "payload": PAYLOAD.encode(), "count": count})
        self.connection.execute("vacuum analyze job")

    async def round_trip(self) -> float:
        """One connection is the worker's, which waits to be woken; the event comes over another."""
        if self._other is None:
            self._other = connect(self.dsn)
            self.connection.execute("listen job")
        await self.create(1)
        ((job_id, _),) = await self.claim(1)
        started = time.perf_counter()
        self.connection.execute(SUSPEND, [job_id])
        self._other.execute(RESUME, [job_id])
        list(self.connection.notifies(timeout=10, stop_after=1))
        resumed = await self.claim(1)
        seconds = time.perf_counter() - started
        await self.complete(resumed)
        return seconds


ADAPTER = Floor
