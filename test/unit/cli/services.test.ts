import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { listOf } from "../../../src/answer/answer.ts";
import type { ProcessContext } from "../../../src/cli/command.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type CommandRun, runCommand } from "../../support/run-command.ts";

const row = {
  namespace: "shop",
  name: "web",
  type: "ClusterIP",
  frontend: "cluster-ip",
  protocol: "TCP",
  address: "10.96.0.10",
  port: 80,
  scheduler: "rr",
  affinitySeconds: 0,
  trafficPolicy: "Cluster",
  realServers: { planned: 1, programmed: 1, draining: 0 },
};

let folder: string;
let path: string;
let server: Server | undefined;
let targets: string[];
let items: readonly unknown[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "list-"));
  path = join(folder, "name.sock");
  targets = [];
  items = [row];
});

afterEach(async () => {
  await new Promise((resolve) => (server === undefined ? resolve(0) : server.close(resolve)));
  server = undefined;
  rmSync(folder, { recursive: true });
});

async function listen(): Promise<void> {
  server = createServer(({ url = "" }, response) => {
    targets.push(url);
    response.end(JSON.stringify({ apiVersion: "kube-ipvs/v1", kind: "ServiceList", items }));
  });
  await new Promise<void>((resolve) => server?.listen(path, resolve));
}

interface Run extends CommandRun {
  /** The targets that the first sync answered. */
  readonly asked: readonly string[];
}

/** Runs `kube-ipvs` with these arguments. If no daemon is running, `firstSync` answers. */
async function run(
  words: readonly string[],
  firstSync: () => object = () => listOf("ServiceList", items),
  process: Partial<ProcessContext> = {},
): Promise<Run> {
  const asked: string[] = [];
  const answerWithoutDaemon = async (_config: unknown, _parts: unknown, target: string) => {
    asked.push(target);
    return JSON.stringify(firstSync());
  };
  const args = [...words, `--kube-ipvs-operator-socket=${path}`];
  const outcome = await runCommand(args, { firstSync: { answerWithoutDaemon } }, process);
  return { ...outcome, asked };
}

const services = (...words: readonly string[]): Promise<Run> => run(["services", ...words]);

describe("kube-ipvs services", () => {
  const endpoint = { address: "10.244.1.5", port: 8080 };
  const codes: readonly (readonly [title: string, row: object, code: number])[] = [
    ["as planned", { endpoints: [endpoint] }, 0],
    [
      "with an endpoint that is not ready",
      { endpoints: [{ ...endpoint, reason: "not-ready" }] },
      0,
    ],
    ["with a drifted endpoint", { endpoints: [{ ...endpoint, reason: "drifted" }] }, 2],
    ["with a rejected endpoint", { endpoints: [{ ...endpoint, reason: "EINVAL" }] }, 2],
    ["without an endpoint", { realServers: { planned: 0, programmed: 0, draining: 0 } }, 0],
    [
      "if no planned endpoint is used",
      { realServers: { planned: 2, programmed: 0, draining: 0 } },
      2,
    ],
    ["at an address that another Service owns", { reason: "claimed-by-another-service" }, 2],
    ["at an address that the node holds", { reason: "held-by-node" }, 0],
  ];
  for (const [title, more, code] of codes) {
    it(`exits with ${code} for a Service ${title}`, async () => {
      items = [row, { ...row, ...more }];
      await listen();
      assert.equal((await services()).code, code);
    });
  }

  const cases: readonly (readonly [words: readonly string[], target: string])[] = [
    [[], "/v1/services?namespace=default"],
    [["-A"], "/v1/services?"],
    [["-o", "json"], "/v1/services?namespace=default&endpoints=true"],
    [["-o", "wide"], "/v1/services?namespace=default&connections=true"],
    [["web", "-n", "shop"], "/v1/services?namespace=shop&name=web&connections=true"],
    [["shop/web"], "/v1/services?namespace=shop&name=web&connections=true"],
    [["svc/web"], "/v1/services?namespace=default&name=web&connections=true"],
    [["web", "-o", "name"], "/v1/services?namespace=default&name=web"],
    [
      ["[fd00:96::a]:53/udp"],
      "/v1/services?protocol=UDP&address=fd00%3A96%3A%3Aa&port=53&connections=true",
    ],
  ];
  for (const [words, target] of cases) {
    it(`${words.join(" ")} requests ${target}`, async () => {
      await listen();
      const { code } = await services(...words);
      assert.deepEqual([code, targets], [0, [target]]);
    });
  }

  it("fails if no Service has the address", async () => {
    await listen();
    items = [];
    const { code, err } = await services("10.96.0.99:80");
    assert.deepEqual([code, err.includes("No Service at 10.96.0.99:80, protocol TCP")], [1, true]);
  });

  it("selects a port by number or name", async () => {
    await listen();
    assert.match((await services("shop/web:80")).out, /^shop +web /m);
    const { code, err } = await services("shop/web:https");
    assert.deepEqual([code, err.includes("No Service web with port https in")], [1, true]);
  });

  it("prints a table, names, JSON or YAML", async () => {
    await listen();
    assert.match((await services()).out, /^NAMESPACE .*\nshop +web +- +ClusterIP .* 1\/1/);
    assert.equal((await services("-o", "table")).out, (await services()).out);
    assert.equal((await services("-o", "name")).out, "shop/web\n");
    assert.match((await services("-o", "json")).out, /"kind": "ServiceList"/);
    assert.match((await services("-o", "yaml")).out, /^items:\n +- address: 10\.96/m);
  });

  it("fits --width or the terminal, and -o wide is complete", async () => {
    await listen();
    const widest = async (words: readonly string[], columns?: number): Promise<number> => {
      const { out } = await run(["services", ...words], undefined, { columns: () => columns });
      return Math.max(...out.split("\n").map((line) => line.length));
    };
    const whole = await widest([]);
    assert.ok((await widest([], 80)) <= 80);
    assert.ok((await widest(["--width=90"])) <= 90);
    assert.equal(await widest(["--width=0"], 80), whole);
    assert.ok((await widest(["-o", "wide"], 80)) >= whole);
    const { code, err } = await services("--width=x");
    assert.deepEqual([code, /^kube-ipvs services: --width: "x": must be/.test(err)], [1, true]);
  });

  it("reports that there are no Services", async () => {
    items = [];
    await listen();
    const nothing = "No Services in namespace default (-A: all namespaces)\n";
    assert.equal((await services()).out, nothing);
  });

  it("fails in each format if no Service has the name", async () => {
    items = [];
    await listen();
    for (const output of ["wide", "json", "yaml", "name"]) {
      const { code, err } = await services("x", "-A", "-o", output);
      assert.deepEqual([code, err], [1, "kube-ipvs services: No Service x\n"]);
    }
  });

  it("works without a daemon, and reports that none is running", async () => {
    const { code, out, err, asked } = await services("web", "-n", "shop");
    assert.equal(code, 0);
    assert.match(out, /shop +web/);
    const instead = "showing what the daemon would find at startup";
    assert.equal(err, `No kube-ipvs daemon on this node answers on ${path} (ENOENT); ${instead}\n`);
    assert.deepEqual(asked, ["/v1/services?namespace=shop&name=web&connections=true"]);
  });

  it("fails if the daemon's answer is of a different kind", async () => {
    await listen();
    const { code, err } = await run(["drains"]);
    assert.equal(code, 1);
    assert.match(err, /it is ServiceList of kube-ipvs\/v1 instead of DrainList of/);
  });

  it("prints again after a change", async () => {
    await listen();
    const clock = new FakeClock();
    const shown: string[] = [];
    const gone = (): never => {
      throw new Error("the daemon is gone");
    };
    const writeOut = (text: string): void => void shown.push(text);
    const running = run(["services", "-o", "name", "--watch"], gone, { clock, writeOut });
    const until = async (count: number): Promise<void> => {
      while (targets.length < count) await turn();
      for (let turns = 0; turns < 20; turns += 1) await turn();
    };
    await until(1);
    await clock.advance(2_000);
    await until(2);
    items = [{ ...row, name: "api" }];
    await clock.advance(2_000);
    await until(3);
    await new Promise((resolve) => server?.close(resolve));
    server = undefined;
    await clock.advance(2_000);
    assert.match((await running).err, /the daemon is gone\n$/);
    assert.deepEqual(shown, ["shop/web\n", "\n", "shop/api\n"]);
  });
});

describe("kube-ipvs drains", () => {
  it("without a daemon, prints what a start would find and reports that none is running", async () => {
    const { code, out, err } = await run(["drains"], () => listOf("DrainList", []));
    assert.deepEqual([code, out], [0, "No real servers are draining\n"]);
    assert.match(
      err,
      /^No kube-ipvs daemon on this node answers on .*; showing what the daemon would find at startup\n$/,
    );
  });

  it("prints again only if more than drain times changed", async () => {
    const drain = {
      ...{ ageSeconds: 10, deadlineInSeconds: 890, namespace: "shop", name: "web" },
      ...{ protocol: "TCP", address: "10.96.0.10", port: 80 },
      realServer: { address: "10.244.1.5", port: 8080 },
      ...{ activeConnections: 2, inactiveConnections: 0 },
    };
    const answers = [
      drain,
      { ...drain, ageSeconds: 12, deadlineInSeconds: 888 },
      { ...drain, ageSeconds: 14, deadlineInSeconds: 886, activeConnections: 1 },
    ];
    const clock = new FakeClock();
    const firstSync = (): object => {
      const answer = answers.shift();
      if (answer === undefined) throw new Error("the node is gone");
      return listOf("DrainList", [answer]);
    };
    let outcome: Run | undefined;
    const running = run(["drains", "--watch"], firstSync, { clock }).then((ended) => {
      outcome = ended;
    });
    while (outcome === undefined) {
      await turn();
      await clock.advance(2_000);
    }
    await running;
    assert.match(outcome.err, /the node is gone\n$/);
    assert.deepEqual(
      outcome.out
        .split("\n")
        .flatMap((line) => (/^\d/.test(line) ? [line.replaceAll(/ +/g, " ")] : [])),
      [
        "10 s in 14 min 50 s shop web TCP 10.96.0.10:80 10.244.1.5:8080 2 0",
        "14 s in 14 min 46 s shop web TCP 10.96.0.10:80 10.244.1.5:8080 1 0",
      ],
    );
  });
});
