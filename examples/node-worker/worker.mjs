// A worker in JavaScript that uses nothing but SQL: every call is one function of schema flowfabric.
//
// It claims for its free slots, renews all of its leases with one call, reports each end once, is woken by
// NOTIFY, takes over what other workers have lost, and drains on SIGTERM. jobs.mjs shows how to use it.
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

// Refused for good. What is left is worth another try: no SQLSTATE at all, lost connections, conflicts, restarts.
const isRefusal = ({ code = "" }) => /^[0-9A-Z]{5}$/.test(code) && !/^(08|40|53|55P03|57P)/.test(code);

/** A failure that no retry can cure. */
export class PermanentError extends Error {}

export class Worker {
  #held = new Map();
  #draining = false;
  #listener = null;
  #wake = () => {};

  /** `dsn` and `handlers`, by kind: async (payload: Buffer, { signal, execution }) => result, any JSON. */
  constructor(options) {
    const defaults = { lanes: ["default"], concurrency: 4, name: "node", leaseTtlMs: 30_000, pollMs: 1_000 };
    Object.assign(this, defaults, options);
    this.instance = `${hostname()}-${process.pid}`;
    this.pool = new pg.Pool({ connectionString: this.dsn, max: 4, application_name: this.instance });
    // A connection that dies while nobody uses it is replaced when the next one is needed.
    this.pool.on("error", () => {});
  }

  /** Work until drain() is called and everything that was started has ended. */
  async run() {
    const renewing = setInterval(() => this.#renew().catch(complain), this.leaseTtlMs / 3);
    this.#listen();
    let emptyLooks = 0;
    let pause = FIRST_PAUSE_MS;
    while (!this.#draining) {
      const free = this.concurrency - this.#held.size;
      // Whoever wakes us from here on may have something that the look below does not see.
      const woken = new Promise((resolve) => (this.#wake = resolve));
      if (free === 0) {
        await woken;
        continue;
      }
      try {
        // Look, register, look again, once more after a moment, then poll: nothing slips through for long.
        if (emptyLooks > 0) await this.#call("ff_wait_for_work($1, $2, $3)", this.#waiter(2 * this.pollMs));
        const claims = await this.#claim(free);
        for (const claim of claims) await (this.#draining ? this.#handBack(claim) : this.#start(claim));
        emptyLooks = claims.length > 0 ? 0 : emptyLooks + 1;
        if (emptyLooks > 1) {
          const nap = new AbortController();
          const napping = sleep(emptyLooks === 2 ? FIRST_PAUSE_MS : this.pollMs, null, { signal: nap.signal });
          await Promise.race([woken, napping]);
          nap.abort();
        }
        pause = FIRST_PAUSE_MS;
      } catch (error) {
        if (isRefusal(error)) throw error;
        complain(error);
        await sleep(pause);
        pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      }
    }
    await Promise.all([...this.#held.values()].map((job) => job.done));
    clearInterval(renewing);
    await this.#call("ff_wait_for_work($1, $2, $3)", this.#waiter(0)).catch(complain);
    await Promise.all([this.#listener?.end(), this.pool.end()]);
  }

  /** Claim nothing more; run() returns when what is running has ended. */
  drain() {
    console.log(`draining: ${this.#held.size} executions are running`);
    this.#draining = true;
    this.#wake();
  }

  #waiter(waitMs) {
    return [this.lanes, this.instance, Math.min(waitMs, 60_000)];
  }

  async #call(call, values) {
    return (await this.pool.query(`select r.* from flowfabric.${call} as r`, values)).rows;
  }

  async #claim(free) {
    const values = [this.lanes, this.name, this.instance, free, this.leaseTtlMs];
    const named =
      "p_lanes => $1, p_worker_id => $2, p_worker_instance_id => $3, p_max => $4, p_lease_ttl_ms => $5";
    const claims = await this.#call(`ff_claim_next(${named})`, values);
    if (claims.length > 0 || this.#draining) return claims;
    const taken = await this.#call(`ff_reclaim_next(${named})`, values);
    // Without a lease: it was taken over too often, and has failed.
    return taken.filter((claim) => claim.lease_id !== null);
  }

  #start(claim) {
    const job = { claim, abort: new AbortController() };
    this.#held.set(claim.lease_id, job);
    job.done = this.#carryOut(job).catch(complain).finally(() => {
      this.#held.delete(claim.lease_id);
      this.#wake();
    });
  }

  // Claimed by a call that was under way when the drain began: given back until a time that is past.
  async #handBack(claim) {
    const claimedAt = claim.lease_expires_at_ms - claim.lease_ttl_ms;
    await this.#call("ff_delay_execution($1, $5, $2, $3, $4)", [...fence(claim), claimedAt]);
  }

  async #carryOut(job) {
    const { claim, abort } = job;
    let report, values;
    try {
      const handler = this.handlers[claim.execution_kind];
      if (!handler) throw new PermanentError(`unknown kind: ${claim.execution_kind}`);
      const result = await handler(claim.payload, { signal: abort.signal, execution: claim });
      report = "ff_complete_execution($1, $2, $3, $4, p_result => $5, p_result_encoding => $6)";
      values = result === undefined ? [null, null] : [Buffer.from(JSON.stringify(result)), "json"];
    } catch (error) {
      report = "ff_fail_execution($1, $2, $3, $4, p_failure_reason => $5, p_failure_category => $6)";
      const category = error instanceof PermanentError ? "permanent" : "transient";
      values = [String(error.message ?? error).slice(0, 2000), category];
    }
    for (let pause = FIRST_PAUSE_MS; !abort.signal.aborted; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      try {
        await this.#call(report, [...fence(claim), ...values]);
        return;
      } catch (error) {
        // Refused: somebody else has the execution, or an earlier try whose answer was lost did arrive.
        if (isRefusal(error)) return complain(error);
        await sleep(pause);
      }
    }
  }

  async #renew() {
    const jobs = [...this.#held.values()];
    if (jobs.length === 0) return;
    const column = (name) => jobs.map((job) => job.claim[name]);
    const items = await this.#call("ff_renew_leases($1, $2, $3, $4, $5)", [
      column("execution_id"), column("lease_id"), column("lease_epoch"), column("attempt_id"), this.leaseTtlMs,
    ]);
    // `busy` is a row that somebody has locked for a moment: the next renewal gets it.
    for (const item of items) {
      if (item.code === null) continue;
      const lost = new Error(`the lease on ${item.execution_id} is lost: ${item.code}`);
      complain(lost);
      jobs[item.item - 1].abort.abort(lost);
    }
  }

  async #listen() {
    while (!this.#draining) {
      const listener = new pg.Client({ connectionString: this.dsn, application_name: this.instance });
      const ended = new Promise((resolve) => listener.once("end", resolve));
      listener.on("error", () => {});
      listener.on("notification", ({ payload }) => this.lanes.includes(payload) && this.#wake());
      this.#listener = listener;
      try {
        await listener.connect();
        await listener.query("listen ff_eligible");
        // What was announced while nobody listened is not announced again.
        this.#wake();
        await ended;
      } catch (error) {
        complain(error);
      }
      await sleep(FIRST_PAUSE_MS, null, { ref: false });
    }
  }
}

// What the database compares with the current lease on every write.
function fence(claim) {
  return [claim.execution_id, claim.lease_id, claim.lease_epoch, claim.attempt_id];
}

function complain(error) {
  console.error(`${error.code ?? ""} ${error.message}`.trim());
}
