"""The public functions as the system catalogue has them: a list by hand could forget one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from flowfabric_client._error_codes import ERROR_CODES
from tests.support.cluster import REPOSITORY, Connection

_FUNCTIONS = """
    select p.proname, p.prokind = 'p', coalesce(p.proargnames, '{}'), p.pronargs - p.pronargdefaults,
        array(
            select a.type::regtype::text
            from unnest(p.proargtypes) with ordinality as a (type, number)
            order by a.number)
    from pg_proc as p
    where p.pronamespace = 'flowfabric'::regnamespace and p.proname like 'ff\\_%'
    order by p.proname
"""

_SECTION = re.compile(r"^### `", re.MULTILINE)
_RAISES = re.compile(r"^- Raises: (?P<codes>.*)$", re.MULTILINE)
_WORD = re.compile(r"[a-z_]+")

#: What pgtap/00_contract/grants.sql says of a function: its name, its roles.
_GRANT = re.compile(r"^    \('(ff_\w+)', '([a-z, ]+)'", re.MULTILINE)

ROLES = ("producer", "worker", "signaller", "operator", "reader", "admin")

#: Checks F1 to F7 of the fence.
FENCE_CODES = frozenset(
    {
        "execution_not_found",
        "partial_fence_triple",
        "fence_required",
        "unauthorized",
        "execution_not_active",
        "lease_revoked",
        "lease_expired",
        "stale_lease",
    }
)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a public function."""

    name: str
    """Without `p_`."""
    sql_type: str
    is_optional: bool


@dataclass(frozen=True)
class Function:
    """A public function or procedure."""

    name: str
    is_procedure: bool
    parameters: tuple[Parameter, ...]

    def statement(self, arguments: Mapping[str, str | None]) -> tuple[str, dict[str, str | None]]:
        """A call with these arguments, each in the text form of its type."""
        types = {parameter.name: parameter.sql_type for parameter in self.parameters}
        named = ", ".join(f"p_{name} => %({name})s::{types[name]}" for name in arguments)
        form = "call flowfabric.{}({})" if self.is_procedure else "select * from flowfabric.{}({})"
        return form.format(self.name, named), dict(arguments)


def public_functions(connection: Connection) -> list[Function]:
    """Every public function and procedure, by name."""
    return [
        Function(
            name,
            is_procedure,
            tuple(
                Parameter(parameter.removeprefix("p_"), sql_type, number >= required)
                for number, (parameter, sql_type) in enumerate(zip(names, types, strict=True))
            ),
        )
        for name, is_procedure, names, required, types in connection.execute(_FUNCTIONS).fetchall()
    ]


def documented_codes() -> dict[str, frozenset[str]]:
    """The codes that docs/reference.md says a function raises, by function."""
    known = {row.code for row in ERROR_CODES}
    codes: dict[str, frozenset[str]] = {}
    for section in _SECTION.split((REPOSITORY / "docs/reference.md").read_text(encoding="utf-8"))[1:]:
        name, _, body = section.partition("`")
        raises = _RAISES.search(body)
        words = set(_WORD.findall(raises["codes"])) if raises else set()
        codes[name] = frozenset(words & known) | (FENCE_CODES if "_ff_check_fence" in words else frozenset())
    return codes


def documented_roles() -> dict[str, set[str]]:
    """Who may call a function, as pgtap/00_contract/grants.sql writes the specification down."""
    text = (REPOSITORY / "pgtap/00_contract/grants.sql").read_text(encoding="utf-8")
    return {
        function: set(ROLES) if roles == "every role" else {"admin", *roles.split(", ")}
        for function, roles in _GRANT.findall(text)
    }
