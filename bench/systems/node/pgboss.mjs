// pg-boss: its own client and worker.
import { PAYLOAD, stamp } from "./tasks.mjs";

const QUEUE = "bench";

export function load(require) {
  const PgBoss = require("pg-boss");

  class Adapter {
    static version = require("pg-boss/package.json").version;

    constructor(dsn) {
      // Maintenance and schedules are for one process of an installation, not for every client.
      this.boss = new PgBoss({ connectionString: dsn, supervise: false, schedule: false, max: 4 });
      this.boss.on("error", console.error);
    }

    async install() {
      await this.boss.start();
      await this.boss.createQueue(QUEUE);
      await this.close();
    }

    open() {
      return this.boss.start();
    }

    close() {
      return this.boss.stop({ graceful: false, wait: true });
    }

    create(count) {
      if (count === 1) return this.boss.send(QUEUE, { payload: PAYLOAD });
      return this.boss.insert(Array.from({ length: count }, () => ({ name: QUEUE, data: { payload: PAYLOAD } })));
    }

    create_stamped() {
      return this.boss.send(QUEUE, { payload: stamp() });
    }

    claim(count) {
      return this.boss.fetch(QUEUE, { batchSize: count });
    }

    complete(claimed) {
      return this.boss.complete(QUEUE, claimed.map((job) => job.id));
    }

    async work(concurrency, onJob) {
      // Its shortest polling interval; it has no wake-ups.
      const options = { batchSize: concurrency, pollingIntervalSeconds: 0.5 };
      const id = await this.boss.work(QUEUE, options, async (jobs) => {
        for (const job of jobs) onJob(job.data.payload);
      });
      return () => this.boss.offWork({ id });
    }

    async unfinished() {
      const { rows } = await this.boss
        .getDb()
        .executeSql("select count(*)::int as left from pgboss.job where name = $1 and state < 'completed'", [QUEUE]);
      return rows[0].left;
    }
  }

  return { Adapter };
}
