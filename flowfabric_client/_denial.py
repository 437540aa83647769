"""Which database roles may make a call, for the login that may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowfabric_client._call import Call
from flowfabric_client._calls import ROLES
from flowfabric_client.errors import FlowFabricError, PermissionDeniedError

# The smallest role first: the one to ask for.
SMALLEST_FIRST = ("reader", "producer", "signaller", "worker", "operator", "admin")
# Sources with which a worker acts on what it holds; any other one is an operator's.
_OWN_SOURCES = (None, "", "lease_holder")


def sufficient_roles(function: str, params: Mapping[str, Any]) -> list[str]:
    """The roles that may make this call with these arguments, the smallest first."""
    granted = ROLES.get(function, ())
    if params.get("source") not in _OWN_SOURCES and "operator" in granted:
        granted = ("operator",)
    return [f"flowfabric_{role}" for role in SMALLEST_FIRST if role in granted]


def explained(error: FlowFabricError, call: Call[Any]) -> FlowFabricError:
    """The error, and for a missing right also the roles that have it."""
    if not isinstance(error, PermissionDeniedError):
        return error
    roles = sufficient_roles(call.function, call.params)
    if not roles:
        return error
    denial = PermissionDeniedError(
        f"{error}: connect as a member of {' or '.join(roles)}",
        details={"roles": roles},
        function=error.function,
        hint=f"Run as an administrator: grant {roles[0]} to <login>;",
        sqlstate=error.sqlstate,
    )
    denial.__cause__ = error.__cause__
    return denial
