// graphile-worker: jobs are added by its utilities and worked by its runner. It has no public call that takes or
// finishes a job, so where the steps are timed its worker's own functions for them are called.
import { PAYLOAD, stamp } from "./tasks.mjs";

const TASK = "bench";

export function load(require) {
  const { Logger, makeWorkerUtils, run, runMigrations } = require("graphile-worker");
  const { getUtilsAndReleasersFromOptions } = require("graphile-worker/dist/lib");
  const { batchGetJobs } = require("graphile-worker/dist/sql/getJobs");
  const { batchCompleteJobs } = require("graphile-worker/dist/sql/completeJobs");
  const logger = new Logger(() => () => {});

  class Adapter {
    static version = require("graphile-worker/package.json").version;
    workerId = `bench-${process.pid}`;
    tasks = { tasks: { [TASK]: () => {} } };

    constructor(dsn) {
      this.options = { connectionString: dsn, logger };
    }

    install() {
      return runMigrations(this.options);
    }

    async open() {
      this.utils = await makeWorkerUtils(this.options);
      [this.compiled, this.release] = await getUtilsAndReleasersFromOptions({ ...this.options, maxPoolSize: 2 });
    }

    async close() {
      await this.release();
      await this.utils.release();
    }

    create(count) {
      if (count === 1) return this.utils.addJob(TASK, { payload: PAYLOAD });
      return this.utils.addJobs(
        Array.from({ length: count }, () => ({ identifier: TASK, payload: { payload: PAYLOAD } })),
      );
    }

    create_stamped() {
      return this.utils.addJob(TASK, { payload: stamp() });
    }

    claim(count) {
      return batchGetJobs(this.compiled, this.compiled.withPgClient, this.tasks.tasks, this.workerId, null, count);
    }

    complete(claimed) {
      return batchCompleteJobs(this.compiled, this.compiled.withPgClient, this.workerId, claimed);
    }

    async work(concurrency, onJob) {
      const runner = await run({
        ...this.options,
        concurrency,
        noHandleSignals: true,
        taskList: { [TASK]: async ({ payload }) => onJob(payload) },
      });
      return () => runner.stop();
    }

    async unfinished() {
      const { rows } = await this.utils.withPgClient((client) =>
        client.query("select count(*)::int as left from graphile_worker._private_jobs"),
      );
      return rows[0].left;
    }
  }

  return { Adapter };
}
