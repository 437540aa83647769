-- Undoes 0004.suspension. Suspensions, waitpoints, signals and signing keys are lost: tokens handed out die.
delete from flowfabric.ff_migration_annotation
where version = 4;
drop table if exists flowfabric.ff_waitpoint_hmac;
drop table if exists flowfabric.ff_suspend_dedup;
drop table if exists flowfabric.ff_suspension_satisfier;
drop table if exists flowfabric.ff_signal_dedup;
drop table if exists flowfabric.ff_signal;
drop table if exists flowfabric.ff_waitpoint_pending;
drop table if exists flowfabric.ff_suspension_current;
