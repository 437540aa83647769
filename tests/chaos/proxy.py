"""A proxy in front of a Postgres that can cut connections in the middle of a message, in either direction."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from random import Random

_SOCKET = ".s.PGSQL.5432"
_CHUNK = 65536


class CuttingProxy:
    """Listens on a unix socket in a directory of its own and forwards to the one in another."""

    def __init__(self, directory: Path, upstream: Path, dice: Random) -> None:
        self.directory = directory
        self.cuts = 0
        self._upstream = upstream / _SOCKET
        self._dice = dice
        self._largest_allowance: int | None = None
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cutting-proxy", daemon=True)
        self._thread.start()
        self._started.wait()

    def cut_after(self, largest_allowance: int | None) -> None:
        """From now on cut each connection after up to so many bytes; with None cut none any more."""
        self._largest_allowance = largest_allowance

    def close(self) -> None:
        """Stop listening and drop all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(
            asyncio.start_unix_server(self._serve, path=str(self.directory / _SOCKET))
        )
        self._started.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            server_reader, server_writer = await asyncio.open_unix_connection(str(self._upstream))
            ways = [
                asyncio.ensure_future(self._forward(reader, server_writer)),
                asyncio.ensure_future(self._forward(server_reader, writer)),
            ]
            _, pending = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in pending:
                way.cancel()
            server_writer.transport.abort()
        writer.transport.abort()

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        allowance: int | None = None
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                if self._largest_allowance is None:
                    allowance = None
                else:
                    if allowance is None:
                        allowance = self._dice.randint(1, self._largest_allowance)
                    if len(data) >= allowance:
                        # Part of a message arrives, and nobody learns what became of it.
                        target.write(data[:allowance])
                        await target.drain()
                        self.cuts += 1
                        return
                    allowance -= len(data)
                target.write(data)
                await target.drain()
