-- Undoes 0004.suspension. Suspensions, waitpoints, signals and signing keys are lost: tokens handed out die.
-- Functions and views that use these tables go with them; the installer loads them again.
delete from flowfabric.ff_migration_annotation
where version = 4;
drop table if exists flowfabric.ff_waitpoint_hmac cascade;
drop table if exists flowfabric.ff_suspend_dedup cascade;
drop table if exists flowfabric.ff_suspension_satisfier cascade;
drop table if exists flowfabric.ff_signal_dedup cascade;
drop table if exists flowfabric.ff_signal cascade;
drop table if exists flowfabric.ff_waitpoint_pending cascade;
drop table if exists flowfabric.ff_suspension_current cascade;
