"""The execution that a handler works on, as both contexts show it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

from flowfabric_client.errors import FlowFabricError
from flowfabric_client.handle import Handle
from flowfabric_client.worker import events
from flowfabric_client.worker.backoff import passes
from flowfabric_client.worker.connections import HandlerConnections
from flowfabric_client.worker.job import Job
from flowfabric_client.worker.signals import Delayed
from flowfabric_client.worker.steps import Steps, delay

_LOGGER = logging.getLogger("flowfabric.worker.handler")


class _JobLogger(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        facts = dict(self.extra or {})
        kwargs["extra"] = {**facts, **kwargs.get("extra", {})}
        return f"[{facts['execution_kind']} {facts['execution_id']} #{facts['attempt_index']}] {msg}", kwargs


@dataclass(frozen=True, slots=True)
class Facts:
    """What both contexts know of the execution, and the steps that both take."""

    _job: Job
    _connections: HandlerConnections

    @property
    def handle(self) -> Handle:
        """The lease, for calls of your own: `client.set_...(**ctx.handle.arguments())`."""
        return self._job.handle

    @property
    def execution_id(self) -> str:
        """The execution, in wire form."""
        return self._job.claim.execution_id

    @property
    def kind(self) -> str:
        """The kind that the handler was found by."""
        return self._job.claim.execution_kind

    @property
    def lane_id(self) -> str:
        """The lane that the execution came from."""
        return self._job.claim.lane_id

    @property
    def namespace(self) -> str:
        """The namespace of the execution."""
        return self._job.claim.namespace

    @property
    def attempt_index(self) -> int:
        """0 for the first attempt; retries, reclaims and replays count on."""
        return self._job.handle.attempt_index

    @property
    def payload(self) -> bytes:
        """The payload as stored; empty if there is none."""
        return self._job.claim.payload or b""

    @property
    def tags(self) -> Mapping[str, Any]:
        """The tags at the time of the claim."""
        return MappingProxyType(self._job.claim.tags or {})

    @property
    def policy(self) -> Mapping[str, Any]:
        """The policy document; empty if there is none."""
        return MappingProxyType(self._job.claim.policy or {})

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the ids of the execution."""
        return _JobLogger(
            _LOGGER,
            {
                "execution_id": self.execution_id,
                "execution_kind": self.kind,
                "attempt_index": self.attempt_index,
                "lane_id": self.lane_id,
            },
        )

    def cancelled(self) -> bool:
        """Whether to stop: the lease is lost, or the handler's time is up. Nothing will be reported."""
        return self._job.cancelled.is_set()

    def _progress(self, pct: int | None, message: str | None) -> Steps[None]:
        try:
            yield lambda client: client.update_progress(
                **self.handle.arguments(), progress_pct=pct, progress_message=message
            )
        except FlowFabricError as error:
            self._job.refused(error)
            if not passes(error):
                raise
            self.logger.warning("progress was not stored: %s", error)

    def _delay(self, until_ms: int) -> Steps[NoReturn]:
        yield from delay(self._job, until_ms, events.WasDelayed(*self._job.facts(), until_ms))
        raise Delayed
