-- Room on the pages of ff_attempt for the second version of every row.
--
-- An attempt is written when it starts and once more when it ends. With 20 percent of a page free, two of three ends of
-- a batch went to another page: a new entry in the index, a row lock and a longer record in the WAL each, 130 bytes of
-- 2 970 per execution. With half of it free nearly all stay heap-only. The price is a larger table, about 350 instead
-- of 220 bytes per attempt until retention removes it. Pages that exist are left as they are.
--
-- Locks:  ff_attempt, SHARE UPDATE EXCLUSIVE for a moment: reads and writes go on.
-- Beside: the previous release goes on working.
-- depends: 0015.ended-suspension-result

alter table flowfabric.ff_attempt set (fillfactor = 50);

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (16, 'attempt-room', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
