"""Everything that two installations must have in common, read from the system catalogue."""

from __future__ import annotations

import json
from typing import Any, LiteralString

import psycopg
from psycopg import sql

Catalogue = dict[str, list[tuple[Any, ...]]]

# What says when, where or by whom an installation was made.
_INCIDENTAL_COLUMNS = {"applied_at_utc", "installed_at_utc", "created_at_utc", "username", "hostname"}
_YEAR_2001_MS = 10**12


def read_catalogue(dsn: str) -> Catalogue:
    """All objects of schema flowfabric with their definitions, owners, comments and grants, and all rows."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("set search_path = pg_catalog")
        catalogue: Catalogue = {name: conn.execute(query).fetchall() for name, query in _QUERIES.items()}
        for (table,) in conn.execute(_TABLES).fetchall():
            catalogue[f"rows of {table}"] = _rows(conn, table)
    return catalogue


def _rows(conn: psycopg.Connection[tuple[Any, ...]], table: str) -> list[tuple[Any, ...]]:
    query = sql.SQL("select to_jsonb(t) from {} as t").format(sql.Identifier("flowfabric", table))
    found = [
        {
            column: _without_time(column, value)
            for column, value in row.items()
            if column not in _INCIDENTAL_COLUMNS
        }
        for (row,) in conn.execute(query)
    ]
    if table == "_yoyo_log":
        found = [{**row, "id": "random"} for row in found]
    return sorted((json.dumps(row, sort_keys=True),) for row in found)


def _without_time(column: str, value: Any) -> Any:
    is_wall_clock = column.endswith("_at_ms") and isinstance(value, int) and value > _YEAR_2001_MS
    return "an instant" if is_wall_clock else value


_TABLES: LiteralString = """
    select c.relname
    from pg_class as c
    where c.relnamespace = 'flowfabric'::regnamespace and c.relkind in ('r', 'p')
    order by 1"""

_QUERIES: dict[str, LiteralString] = {
    "schema": """
        select n.nspname, n.nspowner::regrole::text, obj_description(n.oid, 'pg_namespace'),
            array(select a::text from unnest(n.nspacl) as a order by 1)
        from pg_namespace as n
        where n.nspname = 'flowfabric'""",
    "routines": """
        select p.oid::regprocedure::text, p.proowner::regrole::text, p.prokind, p.prosrc, p.proconfig,
            p.provolatile, p.prosecdef, p.proisstrict, p.proparallel, p.proleakproof, p.procost, p.prorows,
            pg_get_function_result(p.oid), pg_get_function_arguments(p.oid),
            obj_description(p.oid, 'pg_proc'),
            array(select a::text from unnest(p.proacl) as a order by 1)
        from pg_proc as p
        where p.pronamespace = 'flowfabric'::regnamespace
        order by 1""",
    "relations": """
        select c.oid::regclass::text, c.relkind, c.relpersistence, c.relowner::regrole::text, c.reloptions,
            obj_description(c.oid, 'pg_class'),
            array(select a::text from unnest(c.relacl) as a order by 1),
            case when c.relkind = 'v' then pg_get_viewdef(c.oid) end
        from pg_class as c
        where c.relnamespace = 'flowfabric'::regnamespace
        order by 1""",
    "columns": """
        select a.attrelid::regclass::text, row_number() over (partition by a.attrelid order by a.attnum),
            a.attname, format_type(a.atttypid, a.atttypmod),
            a.attnotnull, a.attidentity, a.attgenerated, a.attstorage, a.attcollation::regcollation::text,
            pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum), a.attacl::text
        from pg_attribute as a
        join pg_class as c on c.oid = a.attrelid
        left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = 'flowfabric'::regnamespace and a.attnum > 0 and not a.attisdropped
        order by 1, 2""",
    "types": """
        select t.oid::regtype::text, t.typtype, t.typowner::regrole::text, obj_description(t.oid, 'pg_type'),
            array(select a::text from unnest(t.typacl) as a order by 1),
            array(
                select e.enumlabel::text from pg_enum as e where e.enumtypid = t.oid order by e.enumsortorder)
        from pg_type as t
        where t.typnamespace = 'flowfabric'::regnamespace
        order by 1""",
    "constraints": """
        select c.conrelid::regclass::text, c.conname, c.contype, pg_get_constraintdef(c.oid), c.convalidated,
            obj_description(c.oid, 'pg_constraint')
        from pg_constraint as c
        where c.connamespace = 'flowfabric'::regnamespace
        order by 1, 2""",
    "indexes": """
        select i.indrelid::regclass::text, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid),
            i.indisvalid, obj_description(i.indexrelid, 'pg_class')
        from pg_index as i
        join pg_class as c on c.oid = i.indexrelid
        where c.relnamespace = 'flowfabric'::regnamespace
        order by 1, 2""",
    "triggers": """
        select t.tgrelid::regclass::text, t.tgname, pg_get_triggerdef(t.oid)
        from pg_trigger as t
        join pg_class as c on c.oid = t.tgrelid
        where c.relnamespace = 'flowfabric'::regnamespace and not t.tgisinternal
        order by 1, 2""",
    "sequences": """
        select s.sequencename, s.data_type::text, s.start_value, s.increment_by, s.max_value, s.cycle,
            s.cache_size
        from pg_sequences as s
        where s.schemaname = 'flowfabric'
        order by 1""",
}
