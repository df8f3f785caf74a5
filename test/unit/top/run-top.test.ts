import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { describe, it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { listOf } from "../../../src/answer/answer.ts";
import { rendered } from "../../../src/answer/render.ts";
import type { TrafficList } from "../../../src/answer/traffic.ts";
import { trafficView } from "../../../src/answer/traffic-view.ts";
import type { TrafficKernel } from "../../../src/kernel/sample-traffic.ts";
import type { NamesAnswer } from "../../../src/top/names.ts";
import type { TopOptions } from "../../../src/top/options.ts";
import { runLiveOn } from "../../../src/top/run-live.ts";
import { readTrafficFrom } from "../../../src/top/run-top.ts";
import { openTerminal, type Terminal, type TerminalListener } from "../../../src/top/terminal.ts";
import { create, real, virtual } from "../../contract/servers.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import fc from "../../support/fast-check.ts";
import { ip } from "../../support/records.ts";
import { runCommand } from "../../support/run-command.ts";

const other = virtual({ address: ip("10.96.0.2"), port: 53, protocol: "UDP" });

async function kernelOf(sysctls: Readonly<Record<string, string>> = {}): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  await kernel.ipvs.apply([...create(virtual(), real()), ...create(other)]);
  kernel.ipvs.setConnections(virtual(), real(), { active: 3, inactive: 1 });
  for (const [path, value] of Object.entries(sysctls)) kernel.sysctl.values.set(path, value);
  return kernel;
}

const named: NamesAnswer = {
  kind: "named",
  rows: [
    {
      ...{ namespace: "shop", name: "web", type: "ClusterIP", frontend: "cluster-ip" },
      ...{ protocol: "TCP", address: "10.96.0.1", port: 80, scheduler: "rr", affinitySeconds: 0 },
      ...{ trafficPolicy: "Cluster", realServers: { planned: 1, programmed: 1, draining: 0 } },
    } as const,
  ],
};

interface Batch {
  readonly traffic: TrafficList;
  readonly out: string;
}

async function batch(
  kernel: TrafficKernel & { readonly ipvs: FakeKernel["ipvs"] },
  answer: NamesAnswer = named,
  filter = "",
): Promise<Batch> {
  const clock = new FakeClock();
  kernel.ipvs.setTraffic(virtual(), { connections: 5, bytesIn: 100 });
  const sources = { clock, readNames: async () => answer };
  const options = { intervalMs: 2_000, sort: "connections", filter } as const;
  const running = readTrafficFrom(kernel, sources, options);
  for (let turns = 0; turns < 20; turns += 1) await turn();
  kernel.ipvs.setTraffic(virtual(), { connections: 25, bytesIn: 4_100, bytesOut: 3_000 });
  await clock.advance(2_000);
  const traffic = await running;
  return { traffic, out: rendered(traffic, trafficView, "text", {}) };
}

describe("kube-ipvs top -b", () => {
  it("prints one table from two readings", async () => {
    const { out, traffic } = await batch(await kernelOf());
    assert.deepEqual(traffic.notes, []);
    assert.deepEqual(out.split("\n"), [
      "CONNS/S   IN-B/S  OUT-B/S   ACTIVE  INACTIVE  SERVICE       VIRTUAL-SERVER",
      "     10       2k     1.5k        3         1  shop/web TCP  10.96.0.1:80",
      "      0        0        0        0         0  -             UDP 10.96.0.2:53",
      "",
    ]);
  });

  it("reports that there is nothing to show", async () => {
    const filtered = await batch(await kernelOf(), named, "nope");
    assert.match(filtered.out, /^CONNS\/S [^\n]*\n$/);
    assert.deepEqual(filtered.traffic.notes, ['No row contains "nope"']);
    const kernel = new FakeKernel();
    kernel.ipvs.setTraffic = () => {};
    const { notes } = (await batch(kernel)).traffic;
    assert.deepEqual(notes, ["No virtual servers on this node"]);
  });

  it("prints everything as JSON", async () => {
    const { traffic } = await batch(await kernelOf());
    const { kind, intervalSeconds, estimator, items } = traffic;
    assert.deepEqual([kind, intervalSeconds, estimator], ["TrafficList", 2, "on"]);
    const [first] = items;
    assert.deepEqual(first, {
      namespace: "shop",
      name: "web",
      protocol: "TCP",
      virtualServers: [{ address: "10.96.0.1", port: 80 }],
      activeConnections: 3,
      inactiveConnections: 1,
      total: { connections: 25, packetsIn: 0, packetsOut: 0, bytesIn: 4_100, bytesOut: 3_000 },
      perSecond: { connections: 10, packetsIn: 0, packetsOut: 0, bytesIn: 2_000, bytesOut: 1_500 },
    });
  });

  it("reports that the estimator is off, and that no Service names are known", async () => {
    const kernel = await kernelOf({ "net/ipv4/vs/run_estimation": "0" });
    const { out, traffic } = await batch(kernel, { kind: "unnamed", reason: "ENOENT" });
    assert.match(traffic.notes[0] ?? "", /^The IPVS estimator is off /);
    assert.equal(traffic.notes[1], "Service names are not available: ENOENT");
    assert.match(out, /^ +- +- +- +3 +1 {2}- +TCP 10\.96\.0\.1:80$/m);
    assert.equal(traffic.estimator, "off");
  });
});

class FakeTerminal implements Terminal {
  listener: TerminalListener | undefined;
  written = "";
  rows = 8;

  size(): ReturnType<Terminal["size"]> {
    return { columns: 100, rows: this.rows };
  }

  write(text: string): void {
    this.written += text;
  }

  listen(listener: TerminalListener): void {
    this.listener = listener;
  }

  close(): void {}

  /** Returns the output since the last call. */
  take(): string {
    const text = this.written;
    this.written = "";
    return text;
  }
}

async function settle(): Promise<void> {
  for (let turns = 0; turns < 20; turns += 1) await turn();
}

describe("kube-ipvs top", () => {
  it("shows rates, endpoints and errors, and exits on request", async () => {
    const kernel = await kernelOf();
    const terminal = new FakeTerminal();
    const clock = new FakeClock();
    const running = runLiveOn(
      { clock, kernel, terminal, readNames: async () => named },
      { intervalMs: 2_000, intervalText: "2s", sort: "active", filter: "", hasColor: false },
    );
    await settle();
    assert.match(terminal.take(), /> {7}- {8}- {8}- {8}3 {9}1 {2}shop\/web TCP/);
    kernel.ipvs.setTraffic(virtual(), { connections: 20 });
    await clock.advance(2_000);
    await settle();
    assert.match(terminal.take(), /> {6}10 {8}0 {8}0 {8}3 {9}1 {2}shop\/web TCP/);
    terminal.listener?.onKey("enter");
    await settle();
    assert.match(terminal.take(), /1 endpoint of shop\/web TCP.*10\.244\.1\.5:8080 {7}1/s);
    terminal.listener?.onKey("escape");
    terminal.take();
    terminal.rows = 4;
    terminal.listener?.onResize();
    assert.ok(terminal.take().startsWith("\u001b[1;1H\u001b[2Kkube-ipvs top"));
    terminal.rows = 12;
    kernel.operations.failWhere((operation) => operation.action === "list-traffic", 105);
    await clock.advance(2_000);
    await settle();
    assert.match(terminal.take(), /ENOBUFS/);
    terminal.listener?.onKey("q");
    assert.equal(await running, 0);
  });

  it("exits with 128 + n on a signal", async () => {
    const terminal = new FakeTerminal();
    const running = runLiveOn(
      { clock: new FakeClock(), kernel: await kernelOf(), terminal, readNames: async () => named },
      { intervalMs: 2_000, intervalText: "2s", sort: "active", filter: "", hasColor: false },
    );
    await settle();
    terminal.listener?.onSignal(143);
    assert.equal(await running, 143);
  });
});

class FakeStdin extends EventEmitter {
  isRaw = false;
  setRawMode(isRaw: boolean): this {
    this.isRaw = isRaw;
    return this;
  }
  resume(): this {
    return this;
  }
  pause(): this {
    return this;
  }
}

class FakeStdout extends EventEmitter {
  columns = 80;
  rows = 24;
  written = "";
  write(text: string): void {
    this.written += text;
  }
}

class FakeProcess extends EventEmitter {
  readonly stdin = new FakeStdin();
  readonly stdout = new FakeStdout();
}

describe("the terminal", () => {
  const left = "\u001b[?25h\u001b[?1049l";

  function open(): { target: FakeProcess; terminal: Terminal; keys: string[] } {
    const target = new FakeProcess();
    const keys: string[] = [];
    const terminal = openTerminal(target as unknown as Parameters<typeof openTerminal>[0]);
    terminal.listen({
      onKey: (key) => keys.push(key),
      onResize: () => keys.push("resize"),
      onSignal: (code) => keys.push(`exit ${code}`),
    });
    return { target, terminal, keys };
  }

  it("is restored, however the process ends", () => {
    for (const end of ["close", "exit"] as const) {
      const { target, terminal } = open();
      assert.equal(target.stdin.isRaw, true);
      assert.ok(target.stdout.written.startsWith("\u001b[?1049h\u001b[?25l"));
      if (end === "close") terminal.close();
      else target.emit("exit");
      assert.equal(target.stdin.isRaw, false);
      assert.ok(target.stdout.written.endsWith(left));
      terminal.write("late");
      terminal.close();
      assert.ok(target.stdout.written.endsWith(left));
      assert.equal(target.listenerCount("SIGTERM") + target.stdin.listenerCount("keypress"), 0);
    }
  });

  it("passes on keys, one by one or in pieces, sizes and signals", () => {
    const { target, keys } = open();
    const read = (...texts: readonly string[]): readonly string[] => {
      for (const text of texts) target.stdin.emit("data", text);
      return keys.splice(0);
    };
    assert.deepEqual(
      read("\u001b[A\u001bOB\r/wQ \u007f\u0003\u0004\u001b[5~\u001b[8~\u001b[200~\u0001\t"),
      [
        ...["up", "down", "enter", "/", "w", "Q", " ", "backspace"],
        ...["interrupt", "interrupt", "page-up", "end"],
      ],
    );
    assert.deepEqual(read("\u001b", "[", "B"), ["down"]);
    assert.deepEqual(read("\u001b\u001b[B"), ["escape", "down"]);
    assert.deepEqual(read("\u001bq", "\u001b/"), ["escape", "q", "escape", "/"]);
    assert.deepEqual(read("ü😀"), ["ü", "😀"]);
    target.stdout.emit("resize");
    target.emit("SIGHUP");
    target.stdin.emit("end");
    assert.deepEqual(keys, ["resize", "exit 129", "interrupt"]);
  });

  it("passes on an escape once nothing follows it", async () => {
    const { target, keys } = open();
    target.stdin.emit("data", "\u001b");
    assert.deepEqual(keys, []);
    await once(target.stdin, "keypress");
    assert.deepEqual(keys, ["escape"]);
  });

  it("never fails on unexpected bytes", () => {
    const { target } = open();
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        target.stdin.emit("data", text);
      }),
    );
  });
});

describe("the options of top", () => {
  /** The dependencies of `kube-ipvs top`, and the names that it finds. */
  async function topWith(
    words: readonly string[],
    environment: Readonly<Record<string, string>> = {},
  ): Promise<{
    readonly options?: TopOptions;
    readonly names?: NamesAnswer;
    readonly err: string;
  }> {
    let given: { readonly options: TopOptions; readonly names: NamesAnswer } | undefined;
    const args = ["top", ...words, "--kube-ipvs-operator-socket=/nonexistent/x.sock"];
    const firstSync = {
      answerWithoutDaemon: async () => JSON.stringify(listOf("ServiceList", [])),
    };
    const runLive: typeof import("../../../src/top/run-top.ts").runLive = async (
      { readNames },
      options,
    ) => {
      given = { options, names: await readNames() };
      return 0;
    };
    const { err } = await runCommand(args, { top: { runLive }, firstSync }, { environment });
    return { ...given, err };
  }

  it("are parsed, and an invalid interval is an error", async () => {
    const { options } = await topWith(["x", "--interval=5s", "--sort=out"]);
    assert.deepEqual(options, {
      ...{ intervalMs: 5_000, intervalText: "5s", sort: "out", filter: "x", hasColor: false },
    });
    assert.match((await topWith(["--interval=soon"])).err, /duration string such as "5s"/);
    assert.match((await topWith(["--interval=1s"])).err, /must be between 2s/);
  });

  it("report missing names, and query the objects if the daemon does not know them", async () => {
    const { names } = await topWith([]);
    assert.match(
      names?.kind === "unnamed" ? names.reason : "",
      /ENOENT; if no daemon is running, --config/,
    );
    const pod = { KUBERNETES_SERVICE_HOST: "10.96.0.1" };
    assert.deepEqual((await topWith([], pod)).names, { kind: "named", rows: [] });
  });
});
