-- The last file: nothing in the schema is open to PUBLIC.
--
-- Postgres grants EXECUTE on every new function to PUBLIC. One statement over all of them cannot forget a function, so
-- the files before this one only grant.
revoke all on schema flowfabric from public;
revoke all on all routines in schema flowfabric from public;
revoke all on all tables in schema flowfabric from public;
revoke all on all sequences in schema flowfabric from public;
