// Jobs of kind "greet" and "refuse" in lane "node".
//
//     flowfabric dev                                    # in one terminal; prints the connection string
//     export FLOWFABRIC_DSN=postgresql://...            # in the others
//     cd examples/node-worker && npm install && npm start
//     psql "$FLOWFABRIC_DSN" -c "select execution_id from flowfabric.ff_create_execution(
//         'greet', p_payload => '{\"name\": \"Ada\"}', p_lane_id => 'node')"
//
// SIGTERM or Ctrl-C drains: what is running is finished, then the process ends with 0.
import { setTimeout as sleep } from "node:timers/promises";
import { PermanentError, Worker } from "./worker.mjs";

const handlers = {
  async greet(payload, { signal }) {
    const { name, takes_ms: takesMs = 0 } = JSON.parse(payload);
    await sleep(takesMs, null, { signal });
    return { greeting: `hello, ${name}` };
  },

  async refuse() {
    throw new PermanentError("not today");
  },
};

const { FLOWFABRIC_DSN: dsn, LEASE_TTL_MS = 30_000, POLL_MS = 1_000 } = process.env;
const worker = new Worker({
  dsn, handlers, lanes: ["node"], leaseTtlMs: Number(LEASE_TTL_MS), pollMs: Number(POLL_MS),
});
for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => worker.drain());
await worker.run();
