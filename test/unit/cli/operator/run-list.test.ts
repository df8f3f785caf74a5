import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { runDrains, runServices } from "../../../../src/cli/operator/run-list.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

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

interface Run {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  readonly asked: readonly string[];
}

async function services(name: string | undefined, options: Record<string, string>): Promise<Run> {
  let out = "";
  let err = "";
  const asked: string[] = [];
  const given = { output: "table", namespace: "default", "all-namespaces": "false", ...options };
  const code = await runServices(
    {
      config: { operatorSocketPath: path, lockName: "x" },
      options: new Map(Object.entries(given)),
      arguments: name === undefined ? [] : [name],
    },
    {
      clock: new FakeClock(),
      writeOut: (text) => {
        out += text;
      },
      writeErr: (text) => {
        err += text;
      },
    },
    async (target) => {
      asked.push(target);
      return JSON.stringify({ items });
    },
  );
  return { code, out, err, asked };
}

describe("kube-ipvs services", () => {
  const cases: readonly (readonly [
    name: string | undefined,
    options: Record<string, string>,
    target: string,
  ])[] = [
    [undefined, {}, "/v1/services?namespace=default"],
    [undefined, { "all-namespaces": "true" }, "/v1/services?"],
    [undefined, { output: "json" }, "/v1/services?namespace=default&endpoints=true"],
    [undefined, { output: "wide" }, "/v1/services?namespace=default&connections=true"],
    ["web", { namespace: "shop" }, "/v1/services?namespace=shop&name=web&connections=true"],
    ["shop/web", {}, "/v1/services?namespace=shop&name=web&connections=true"],
    ["web", { output: "name" }, "/v1/services?namespace=default&name=web"],
  ];
  for (const [name, options, target] of cases) {
    it(`${name ?? ""} ${JSON.stringify(options)} asks for ${target}`, async () => {
      await listen();
      const { code } = await services(name, options);
      assert.deepEqual([code, targets], [0, [target]]);
    });
  }

  it("prints a table, names, JSON or YAML", async () => {
    await listen();
    assert.match(
      (await services(undefined, {})).out,
      /^NAMESPACE .*\nshop +web +- +ClusterIP .* 1\/1/,
    );
    assert.equal((await services(undefined, { output: "name" })).out, "shop/web\n");
    assert.match((await services(undefined, { output: "json" })).out, /"kind":"ServiceList"/);
    assert.match(
      (await services(undefined, { output: "yaml" })).out,
      /^items:\n +- address: 10\.96/m,
    );
  });

  it("says so where there is nothing", async () => {
    items = [];
    await listen();
    assert.equal(
      (await services(undefined, {})).out,
      "No Services in namespace default (-A: all namespaces)\n",
    );
  });

  it("fails where there is no Service of the name, in each form", async () => {
    items = [];
    await listen();
    for (const output of ["wide", "json", "yaml", "name"]) {
      await assert.rejects(services("x", { "all-namespaces": "true", output }), {
        message: "No Service x",
      });
    }
  });

  it("works without a daemon, and says so", async () => {
    const { code, out, err, asked } = await services("web", { namespace: "shop" });
    assert.equal(code, 0);
    assert.match(out, /shop +web/);
    assert.equal(
      err,
      `No kube-ipvs on this node answers on ${path} (ENOENT): showing what a start would find\n`,
    );
    assert.deepEqual(asked, ["/v1/services?namespace=shop&name=web&connections=true"]);
  });

  it("prints again when something changed", async () => {
    await listen();
    const clock = new FakeClock();
    const shown: string[] = [];
    const running = runServices(
      {
        config: { operatorSocketPath: path, lockName: "x" },
        options: new Map([
          ["output", "name"],
          ["watch", "true"],
        ]),
        arguments: [],
      },
      { clock, writeOut: (text) => void shown.push(text), writeErr: () => {} },
      () => Promise.reject(new Error("the daemon is gone")),
    );
    const ended = assert.rejects(running, /the daemon is gone/);
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
    await ended;
    assert.deepEqual(shown, ["shop/web\n", "\nshop/api\n"]);
  });
});

describe("kube-ipvs drains", () => {
  const question = { options: new Map([["output", "table"]]), arguments: [] };

  it("prints what a start would find where no daemon runs, and says so", async () => {
    let [out, err] = ["", ""];
    const config = { operatorSocketPath: path, lockName: "x" };
    const world = {
      clock: new FakeClock(),
      writeOut: (text: string): void => {
        out += text;
      },
      writeErr: (text: string): void => {
        err += text;
      },
    };
    const status = await runDrains({ ...question, config }, world, async () => '{"items":[]}');
    assert.deepEqual([status, out], [0, "Nothing drains\n"]);
    assert.match(
      err,
      /^No kube-ipvs on this node answers on .*: showing what a start would find\n$/,
    );
  });

  it("says so where nothing drains", async () => {
    items = [];
    await listen();
    let out = "";
    const config = { operatorSocketPath: path, lockName: "x" };
    const writeOut = (text: string): void => {
      out += text;
    };
    await runDrains(
      { ...question, config },
      { clock: new FakeClock(), writeOut, writeErr: () => {} },
      () => Promise.reject(new Error("a daemon runs")),
    );
    assert.equal(out, "Nothing drains\n");
  });

  it("prints again only when more than the times of a drain changed", async () => {
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
    const shown: string[] = [];
    const options = new Map([...question.options, ["watch", "true"]]);
    const running = runDrains(
      { arguments: [], options, config: { operatorSocketPath: path, lockName: "x" } },
      { clock, writeOut: (text) => void shown.push(text), writeErr: () => {} },
      async () => {
        const answer = answers.shift();
        if (answer === undefined) throw new Error("the node is gone");
        return JSON.stringify({ items: [answer] });
      },
    );
    let hasEnded = false;
    const ended = assert.rejects(running, /the node is gone/).finally(() => {
      hasEnded = true;
    });
    while (!hasEnded) {
      await turn();
      await clock.advance(2_000);
    }
    await ended;
    assert.deepEqual(
      shown.map((text) => /^(?:10|14) s .*[12] +0$/m.exec(text)?.[0].replaceAll(/ +/g, " ")),
      [
        "10 s in 14 min 50 s shop web TCP 10.96.0.10:80 10.244.1.5:8080 2 0",
        "14 s in 14 min 46 s shop web TCP 10.96.0.10:80 10.244.1.5:8080 1 0",
      ],
    );
  });
});
