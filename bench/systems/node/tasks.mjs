// What a client process does once it is told to start: the same as in bench/tasks.py.
import process from "node:process";

const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const cpuSeconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// Now, on the clock that all processes of this machine share.
export const stamp = () => String(process.hrtime.bigint());
// A worker that has not begun by then never will; how long it takes to begin is not measured.
const STARTS_WITHIN = 30;
export const PAYLOAD = "hello world";

function cycles(adapter, _number, { batch, seconds: duration, warm_up: warmUp }) {
  let warmedUp = 0;
  async function cycleFor(time) {
    const spent = { create: 0, claim: 0, complete: 0 };
    const cpu = cpuSeconds();
    const started = seconds();
    let operations = 0;
    for (let before; (before = seconds()) < started + time; ) {
      await adapter.create(batch);
      const created = seconds();
      const claimed = await adapter.claim(batch);
      const taken = seconds();
      spent.create += created - before;
      spent.claim += taken - created;
      if (claimed.length > 0) {
        await adapter.complete(claimed);
        spent.complete += seconds() - taken;
        operations += claimed.length;
      }
    }
    return { operations, seconds: seconds() - started, client_cpu: cpuSeconds() - cpu, spent };
  }
  return {
    prepare: async () => {
      warmedUp = (await cycleFor(warmUp)).operations;
    },
    run: async () => ({ ...(await cycleFor(duration)), warmed_up: warmedUp }),
  };
}

function drain(adapter, _number, { jobs: wanted, concurrency, fill_limit: fillLimit, limit }) {
  let jobs = 0;
  return {
    prepare: async () => {
      for (const deadline = seconds() + fillLimit; jobs < wanted && seconds() < deadline; jobs += 100) {
        await adapter.create(100);
      }
    },
    run: async () => {
      let handled = 0;
      let firstAt = 0;
      const cpu = cpuSeconds();
      const started = seconds();
      const stop = await adapter.work(concurrency, () => {
        if (handled === 0) firstAt = seconds();
        handled++;
      });
      while (handled === 0 && seconds() < started + STARTS_WITHIN) await pause(5);
      const deadline = firstAt + limit;
      while (handled < jobs && seconds() < deadline) await pause(5);
      let left;
      while ((left = await adapter.unfinished()) > 0 && handled >= jobs) {
        if (seconds() > deadline + 5) throw new Error(`the worker handled every job, but left ${left} unfinished`);
        await pause(5);
      }
      const result = { operations: jobs - left, seconds: seconds() - firstAt, client_cpu: cpuSeconds() - cpu };
      await stop();
      if (handled === 0) throw new Error(`the worker started no job within ${STARTS_WITHIN} s`);
      return result;
    },
  };
}

// Client 0 is the system's own worker, client 1 makes jobs at a steady rate; the job says when it was made.
function startLatency(adapter, number, { per_second: perSecond, samples, concurrency }) {
  const latencies = [];
  let stop;
  const untilHandled = async (count) => {
    const deadline = seconds() + samples / perSecond + 30;
    while (latencies.length < count) {
      if (seconds() > deadline) throw new Error(`only ${latencies.length} of ${count} jobs were started`);
      await pause(50);
    }
  };
  return {
    prepare: async () => {
      if (number !== 0) return;
      stop = await adapter.work(concurrency, (payload) =>
        latencies.push(Number(process.hrtime.bigint() - BigInt(payload)) / 1e9),
      );
      await adapter.create_stamped();
      await untilHandled(1);
      latencies.length = 0;
    },
    run: async () => {
      if (number === 0) {
        await untilHandled(samples);
        await stop();
        return { seconds: latencies };
      }
      const started = seconds();
      for (let i = 0; i < samples; i++) {
        await pause(Math.max(0, (started + i / perSecond - seconds()) * 1000));
        await adapter.create_stamped();
      }
      return { seconds: [] };
    },
  };
}

export const TASKS = {
  cycles: { needs: ["create", "claim", "complete"], make: cycles },
  start_latency: { needs: ["create_stamped", "work"], make: startLatency },
  drain: { needs: ["create", "work", "unfinished"], make: drain },
};

// How a system does a task; undefined if it cannot.
export function taskFor(name, adapter) {
  const task = TASKS[name];
  return task?.needs.every((method) => method in adapter) ? task.make : undefined;
}
