-- Takes back everything that the client roles and PUBLIC hold in the schema.
--
-- The files after this one then state exactly what holds: a grant that was removed from its file, or made by hand, is
-- gone after the next load. All files load in one transaction, so no caller ever sees the time in between.
revoke all on schema flowfabric from
public, flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader,
flowfabric_admin;
revoke all on all routines in schema flowfabric from
public, flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader,
flowfabric_admin;
revoke all on all tables in schema flowfabric from
public, flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader,
flowfabric_admin;
revoke all on all sequences in schema flowfabric from
public, flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader,
flowfabric_admin;

grant usage on schema flowfabric to
flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader,
flowfabric_admin;
