import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Status } from "../../../src/answer/answers.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { parseJson } from "../../../src/base/parse-json.ts";
import { version as programVersion } from "../../../src/base/version.ts";
import { acquireInstanceLock } from "../../../src/daemon/process/instance-lock.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type CommandRun, runCommand } from "../../support/run-command.ts";
import { well } from "../../support/well-status.ts";

const troubled: Status = {
  ...well,
  verdict: "Degraded",
  summary: "Degraded: 1 object rejected by the kernel (EINVAL) (for 2 min)",
  counts: { ...well.counts, rejectedObjects: 1, drifts: 2 },
  rejectedObjects: [
    {
      subject: "TCP 10.96.0.10:80 -> 10.244.1.11:8080",
      reason: "EINVAL",
      message: "Cannot create real server\u001b[2J",
      services: ["default/web"],
      sinceSeconds: 120,
      attempts: 7,
      retryInSeconds: 9,
    },
  ],
  lastDrift: {
    subject: "KUBE-CLUSTER-IP",
    action: "repair",
    ageSeconds: 61,
    changedBy: "nft (PID 4711)",
  },
};

let folder: string;
let path: string;
let server: Server | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "status-"));
  path = join(folder, "name.sock");
});

afterEach(async () => {
  await new Promise((resolve) => (server === undefined ? resolve(0) : server.close(resolve)));
  server = undefined;
  rmSync(folder, { recursive: true });
});

async function answer(status: number, text: string): Promise<void> {
  server = createServer((_request, response) => {
    response.writeHead(status).end(text);
  });
  await new Promise<void>((resolve) => server?.listen(path, resolve));
}

function run(output = "text"): Promise<CommandRun> {
  return runCommand([
    ...["status", "-o", output, `--kube-ipvs-operator-socket=${path}`],
    `--kube-ipvs-lock-name=test-${process.pid}`,
  ]);
}

describe("kube-ipvs status", () => {
  it("prints the verdict first, and exits with 0 if everything is fine", async () => {
    await answer(200, JSON.stringify(well));
    const { code, out } = await run();
    assert.equal(code, 0);
    assert.equal(
      out,
      `OK, 1,204 Services, last sync 3 s ago, took 4.1 ms

Node                 node-1
Mode                 ipvs, IPv4 and IPv6, scheduler rr
API server           10.0.0.1:6443, last answer 12 s ago
Last full sync       2 h 10 min ago, took 120.5 ms
Last partial sync    3 s ago, took 4.1 ms
Services             1,204 with 12,040 endpoints
Virtual servers      1,300, and 1 foreign
Real servers         13,000, 2 draining
Rejected objects     0
Invalid objects      0
Conflicts            0
Drift                none since startup
Backing off          0
Manual weights       0
Ignored annotations  0
iptables             nft: kubelet uses it
Versions             kube-ipvs 0.2.0, Node.js 24.1.0, Linux 6.1.0
Process              1, up 2 h 10 min
Not checked          rules of other software, routes and settings: run kube-ipvs doctor
`,
    );
  });

  it("fits the width", async () => {
    await answer(200, JSON.stringify(troubled));
    const { out } = await runCommand([
      "status",
      "--width=60",
      `--kube-ipvs-operator-socket=${path}`,
    ]);
    assert.deepEqual(
      out.split("\n").filter(({ length }) => length > 60),
      [],
    );
  });

  it("names the problems without terminal escapes, and exits with 2", async () => {
    await answer(200, JSON.stringify(troubled));
    const { code, out } = await run();
    assert.equal(code, 2);
    assert.match(out, /^Degraded: 1 object rejected/);
    assert.match(
      out,
      /^Drift +2 since startup, the last 1 min 1 s ago, by nft \(PID 4711\): KUBE-CLUSTER-IP \(repair\)$/m,
    );
    assert.ok(
      out.includes(
        "\n  TCP 10.96.0.10:80 -> 10.244.1.11:8080 (default/web) for 2 min, next attempt in 9 s: Cannot create real server\\u001b[2J\n",
      ),
    );
  });

  it("waits for the verdict OK, and prints the last answer after the timeout", async () => {
    let count = 0;
    server = createServer((_request, response) => {
      count += 1;
      response.end(JSON.stringify(count < 3 ? troubled : well));
    });
    await new Promise<void>((resolve) => server?.listen(path, resolve));
    const waiting = (seconds: string): Promise<CommandRun> =>
      runCommand(
        ["status", "--wait", seconds, `--kube-ipvs-operator-socket=${path}`],
        {},
        { clock: systemClock },
      );
    const short = await waiting("0.5");
    assert.match(short.out, /^Degraded: /);
    assert.equal(short.code, 2);
    const long = await waiting("30");
    assert.match(long.out, /^OK, /);
    assert.equal(long.code, 0);
    for (const wrong of ["soon", "Infinity", "-1"])
      assert.match((await waiting(wrong)).err, new RegExp(`--wait: ${wrong}: must be a number`));
  });

  it("prints again with --watch if more than ages changed", async () => {
    const older: Status = {
      ...well,
      ...{
        summary: "OK, 1,204 Services, last sync 5 s ago, took 4.1 ms",
        lastPartialSync: undefined,
      },
      lastFullSync: { ageSeconds: 7_802, durationMs: 120.5 },
      process: { pid: 1, uptimeSeconds: 7_804 },
    } as unknown as Status;
    const same = { ...older, lastPartialSync: { ageSeconds: 5, durationMs: 9 } };
    const answers: readonly object[] = [well, same, troubled, {}];
    let count = 0;
    server = createServer((_request, response) => {
      response.end(JSON.stringify(answers[count] ?? {}));
      count += 1;
    });
    await new Promise<void>((resolve) => server?.listen(path, resolve));
    const clock = new FakeClock();
    const args = ["status", "--watch", `--kube-ipvs-operator-socket=${path}`];
    let ended: CommandRun | undefined;
    const running = runCommand(args, {}, { clock }).then((run) => {
      ended = run;
    });
    while (ended === undefined) {
      await turn();
      await clock.advance(2_000);
    }
    await running;
    assert.deepEqual(ended.out.match(/^(?:OK|Degraded)\b/gm), ["OK", "Degraded"]);
    assert.match(ended.err, /it is no kind/);
  });

  it("prints JSON and YAML unchanged", async () => {
    await answer(200, JSON.stringify(well));
    assert.deepEqual(parseJson((await run("json")).out), well);
    assert.match((await run("yaml")).out, /^verdict: OK$/m);
  });

  it("exits with 2 and names the socket if no daemon is running", async () => {
    const { code, out } = await run();
    assert.equal(code, 2);
    assert.equal(
      out,
      `Not running: no kube-ipvs daemon on this node answers on ${path} (ENOENT)\n`,
    );
    const asJson = await run("json");
    assert.equal((parseJson(asJson.out) as { verdict: string }).verdict, "NotRunning");
  });

  it("exits with 2 if the daemon does not answer", async () => {
    const lock = await acquireInstanceLock(`test-${process.pid}`);
    try {
      const { code, out } = await run();
      assert.equal(code, 2);
      assert.match(out, /^Degraded: kube-ipvs is running \(process \d+\), but does not answer on/);
    } finally {
      await lock.release();
    }
  });

  it("fails if this process has no permission, whether or not a daemon is running", async () => {
    await answer(200, JSON.stringify(well));
    chmodSync(folder, 0);
    const isRoot = process.geteuid?.() === 0;
    if (isRoot) process.seteuid?.(65_534);
    const running = run();
    if (isRoot) process.seteuid?.(0);
    const { code, err } = await running;
    chmodSync(folder, 0o700);
    const message = `Cannot query kube-ipvs on ${path}: EACCES (run this command as root)`;
    assert.deepEqual([code, err], [1, `kube-ipvs status: ${message}\n`]);
  });

  it("uses singular and plural correctly, and omits servers in modes without them", async () => {
    const counts = { ...well.counts, services: 1, endpoints: 1 };
    await answer(200, JSON.stringify({ ...well, mode: "iptables", counts }));
    const { out } = await run();
    assert.match(out, /^Services +1 with 1 endpoint$/m);
    assert.doesNotMatch(
      out,
      /^(?:Virtual servers|Real servers|Manual weights|Ignored annotations) /m,
    );
  });

  it("prints the daemon's reason for not answering a query", async () => {
    await answer(501, JSON.stringify({ kind: "Error", message: "/v1/x: iptables mode has none" }));
    assert.match((await run()).out, /\(\/v1\/x: iptables mode has none\)/);
  });

  it("exits with 2 if the daemon answers with an error", async () => {
    await answer(500, "no memory");
    const { code, out } = await run();
    assert.equal(code, 2);
    assert.match(out, /\(HTTP 500: no memory\)/);
  });

  for (const [closedTimes, code, wanted] of [
    [1, 0, /^OK, /],
    [2, 2, /\(ECONNRESET: the daemon closed the connection; if the node is busy, try again\)/],
  ] as const) {
    it(`repeats the request once if the daemon closes the connection: ${closedTimes} times`, async () => {
      let count = 0;
      server = createServer((request, response) => {
        count += 1;
        if (count <= closedTimes) request.socket.destroy();
        else response.end(JSON.stringify(well));
      });
      await new Promise<void>((resolve) => server?.listen(path, resolve));
      const ended = await run();
      assert.deepEqual([ended.code, count], [code, 2]);
      assert.match(ended.out, wanted);
    });
  }

  it("repeats the request once if the daemon reports that it arrived too late", async () => {
    await answer(408, "");
    assert.match((await run()).out, /\(HTTP 408: the daemon closed the connection; /);
  });

  for (const missing of ["summary", "invalidObjects", "node", "counts.services"]) {
    it(`reports a daemon with a different version whose answer lacks ${missing}`, async () => {
      const [name = "", field] = missing.split(".");
      const { [name]: _, ...rest }: Record<string, unknown> = { ...well };
      const counts = { ...well.counts, services: undefined };
      await answer(200, JSON.stringify(field === undefined ? rest : { ...rest, counts }));
      const { code, out, err } = await run();
      assert.deepEqual([code, out], [1, ""]);
      assert.match(
        err,
        /^kube-ipvs status: Cannot use the daemon's answer: .* version differs from this command's \(kube-ipvs \S+\): run the command in the daemon's container/,
      );
      assert.equal(err.split("\n").length, 2);
    });
  }

  it("reports a daemon that answers something else", async () => {
    await answer(200, JSON.stringify({ ...well, apiVersion: "kube-ipvs/v2" }));
    assert.match((await run()).err, /it is Status of kube-ipvs\/v2 instead of Status of /);
  });

  it("waits 5 seconds for a hanging daemon", { timeout: 60_000 }, async () => {
    server = createServer(() => {});
    await new Promise<void>((resolve) => server?.listen(path, resolve));
    const { code, out } = await run();
    assert.equal(code, 2);
    assert.match(
      out,
      /^Degraded: kube-ipvs is running, but .* \(no answer within 5 s\)\. The kernel keeps serving\. Save the log, then restart kube-ipvs\n$/,
    );
    server.closeAllConnections();
  });
});

describe("kube-ipvs version", () => {
  const version = (...args: readonly string[]): Promise<CommandRun> =>
    runCommand(["version", ...args, `--kube-ipvs-operator-socket=${path}`]);

  it("prints the versions of the program and of the daemon", async () => {
    const daemon = { program: programVersion, nodeJs: "24.1.0", kernel: "6.1.0" };
    await answer(200, JSON.stringify({ ...well, versions: daemon }));
    const { code, out } = await version("-o", "json");
    const { kind, program, daemon: shown } = JSON.parse(out);
    assert.deepEqual([code, kind, program, shown], [0, "Version", programVersion, daemon]);
    assert.match(
      (await version()).out,
      /^Daemon +kube-ipvs \S+, Node\.js 24\.1\.0, Linux 6\.1\.0$/m,
    );
  });

  it("exits with 2 if the daemon has a different version", async () => {
    await answer(
      200,
      JSON.stringify({ ...well, versions: { ...well.versions, program: "0.1.0" } }),
    );
    assert.equal((await version()).code, 2);
  });

  it("prints why the daemon does not answer", async () => {
    const { code, out } = await version();
    assert.equal(code, 0);
    assert.match(out, /^Program +kube-ipvs .*\nDaemon +does not answer: ENOENT$/m);
  });
});
