// The process that holds the clients of a system that runs on Node: the twin of bench/host.py, with the same
// requests and answers. `node host.mjs SYSTEM`; BENCH_NODE names the directory in which the peers are installed.
import { fork } from "node:child_process";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import process from "node:process";

import { TASKS, taskFor } from "./tasks.mjs";

const here = fileURLToPath(import.meta.url);
const [system, role] = process.argv.slice(2);
const require = createRequire(`${process.env.BENCH_NODE}/package.json`);
const { Adapter } = await import(`./${system}.mjs`).then((module) => module.load(require));

// One message from the other end of the channel.
const message = (end) =>
  new Promise((resolve, reject) => {
    end.once("message", resolve);
    end.once("disconnect", () => reject(new Error("a client process ended")));
  });

async function client() {
  const { dsn, task, number, args } = await message(process);
  const adapter = new Adapter(dsn);
  await adapter.open();
  const work = taskFor(task, adapter)(adapter, number, args);
  await work.prepare();
  process.send({ ok: null });
  await message(process);
  process.send({ ok: await work.run() });
  await message(process);
  await adapter.close();
  process.disconnect();
}

class Host {
  clients = [];

  hello() {
    return { version: Adapter.version, tasks: Object.keys(TASKS).filter((name) => taskFor(name, Adapter.prototype)) };
  }

  async install({ dsn }) {
    await new Adapter(dsn).install();
    return null;
  }

  async prepare({ dsn, task, clients, arguments: args }) {
    for (let number = 0; number < clients; number++) {
      const child = fork(here, [system, "client"], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
      child.send({ dsn, task, number, args });
      this.clients.push(child);
    }
    await this.#receive();
    return null;
  }

  async go() {
    const answers = this.#receive();
    for (const child of this.clients) child.send("go");
    return await answers;
  }

  async end() {
    const ends = this.clients.map((child) => new Promise((resolve) => child.once("exit", resolve)));
    for (const child of this.clients) child.send("end");
    await Promise.all(ends);
    this.clients = [];
    return null;
  }

  async #receive() {
    const answers = await Promise.all(this.clients.map(message));
    for (const answer of answers) if (answer.error) throw new Error(answer.error);
    return answers.map((answer) => answer.ok);
  }
}

async function serve() {
  const host = new Host();
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: action, ...request } = JSON.parse(line);
    let answer;
    try {
      answer = { ok: await host[action](request) };
    } catch (error) {
      console.error(error);
      answer = { error: String(error.message ?? error) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
}

if (role === "client") {
  // What libraries print goes to the log, not between the answers.
  console.log = console.info = console.error;
  client().catch((error) => {
    console.error(error);
    process.send({ error: String(error.message ?? error) });
  });
} else {
  console.log = console.info = console.error;
  await serve();
}
