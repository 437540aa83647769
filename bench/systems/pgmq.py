"""pgmq: a queue in SQL functions. A finished message is archived: most others keep theirs too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgmq.install import get_embedded_install_sql, get_embedded_sql_version, install_pgmq_sql

from bench.systems.adapter import PAYLOAD, SqlAdapter, connect

CREATE = "select pgmq.send('bench', %s::jsonb)"
CREATE_MANY = "select pgmq.send_batch('bench', array_fill(%s::jsonb, array[%s]))"
CLAIM = "select msg_id, message from pgmq.read('bench', 30, %s)"
COMPLETE = "select pgmq.archive('bench', %s::bigint)"
COMPLETE_MANY = "select pgmq.archive('bench', %s::bigint[])"


class Pgmq(SqlAdapter):
    """Has no worker of its own."""

    @classmethod
    def version(cls) -> str:
        return get_embedded_sql_version()

    def install(self) -> None:
        install_pgmq_sql(get_embedded_install_sql(), dsn=self.dsn)
        with connect(self.dsn) as connection:
            connection.execute("select pgmq.create('bench')")

    async def create(self, count: int) -> None:
        if count == 1:
            self.create_with_payload(PAYLOAD)
        else:
            self.connection.execute(CREATE_MANY, [f'"{PAYLOAD}"', count])

    def create_with_payload(self, payload: str) -> None:
        self.connection.execute(CREATE, [f'"{payload}"'])

    async def claim(self, count: int) -> Sequence[Any]:
        return self.connection.execute(CLAIM, [count]).fetchall()

    async def complete(self, claimed: Sequence[Any]) -> None:
        if len(claimed) == 1:
            self.connection.execute(COMPLETE, [claimed[0][0]])
        else:
            self.connection.execute(COMPLETE_MANY, [[job[0] for job in claimed]])


ADAPTER = Pgmq
