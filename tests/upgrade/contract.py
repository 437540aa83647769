"""What a client can rely on: every public function with its parameters, its result and who may call it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, LiteralString

from tests.support.cluster import Connection

Function = dict[str, Any]
Contract = dict[str, Function]

_FUNCTIONS: LiteralString = """
    select p.proname, p.prokind = 'p', p.proretset,
        array(
            select jsonb_build_object(
                'name', p.proargnames[a.position], 'type', format_type(a.type, null),
                'has_default', a.position > p.pronargs - p.pronargdefaults)
            from unnest(p.proargtypes) with ordinality as a (type, position)
            order by a.position),
        case
            when t.typtype = 'c' then array(
                select jsonb_build_object('name', c.attname, 'type', format_type(c.atttypid, c.atttypmod))
                from pg_attribute as c
                where c.attrelid = t.typrelid and c.attnum > 0 and not c.attisdropped
                order by c.attnum)
            else array[jsonb_build_object('name', null, 'type', format_type(t.oid, null))]
        end,
        array(
            select r.rolname::text
            from aclexplode(p.proacl) as g join pg_roles as r on r.oid = g.grantee
            where starts_with(r.rolname, 'flowfabric_')
            order by r.rolname)
    from pg_proc as p join pg_type as t on t.oid = p.prorettype
    where p.pronamespace = 'flowfabric'::regnamespace and starts_with(p.proname, 'ff_')
    order by p.proname"""


def read_contract(connection: Connection) -> Contract:
    """The public functions of an installation, by name."""
    return {
        name: {
            "is_procedure": is_procedure,
            "returns_set": returns_set,
            "parameters": parameters,
            "columns": columns,
            "roles": roles,
        }
        for name, is_procedure, returns_set, parameters, columns, roles in connection.execute(_FUNCTIONS)
    }


def broken_promises(old: Contract, new: Contract) -> Iterator[str]:
    """Why calls of a client that was made for the old contract fail under the new one."""
    for name, function in old.items():
        if name not in new:
            yield f"{name} is gone"
            continue
        current = new[name]
        for kind in ("is_procedure", "returns_set"):
            if current[kind] != function[kind]:
                yield f"{name}: {kind} is now {current[kind]}"
        yield from _broken_parameters(name, function["parameters"], current["parameters"])
        # A client leaves out the columns that it does not know.
        if missing_columns := [column for column in function["columns"] if column not in current["columns"]]:
            yield f"{name} no longer returns {missing_columns}"
        if missing := set(function["roles"]) - set(current["roles"]):
            yield f"{name} may no longer be called by {', '.join(sorted(missing))}"


def _broken_parameters(name: str, old: list[Function], new: list[Function]) -> Iterator[str]:
    # In the same places too: psql users call by position.
    for before, after in zip(old, new, strict=False):
        if (before["name"], before["type"]) != (after["name"], after["type"]):
            yield f"{name}: {before['name']} {before['type']} became {after['name']} {after['type']}"
        elif before["has_default"] and not after["has_default"]:
            yield f"{name}: {before['name']} has lost its default"
    for gone in old[len(new) :]:
        yield f"{name}: {gone['name']} is gone"
    for added in new[len(old) :]:
        if not added["has_default"]:
            yield f"{name}: {added['name']} is new and has no default"
