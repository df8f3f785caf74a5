import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { silentLogger } from "../../../../src/base/log.ts";
import {
  findOtherProxy,
  type OtherProxy,
  OtherProxyError,
  otherProxyGone,
} from "../../../../src/daemon/node/other-proxy.ts";
import { listListeningSockets } from "../../../../src/kernel/listening-sockets.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { ip } from "../../../support/records.ts";

const folder = mkdtempSync(join(tmpdir(), "other-proxy-"));
after(() => rmSync(folder, { recursive: true }));

interface FakeProcess {
  readonly cmdline: string;
  readonly exe?: string;
  readonly namespace?: string;
}

const ownPid = 10;
let folders = 0;

/** Creates a /proc folder with these processes and kube-ipvs's own, which has the same name as kube-proxy. */
function procWith(processes: Readonly<Record<number, FakeProcess>>): string {
  const proc = join(folder, String(folders++));
  const own = { cmdline: "kube-proxy\0--config=x\0", exe: "/usr/bin/node", namespace: "net:[1]" };
  for (const [pid, { cmdline, exe, namespace }] of Object.entries({
    [ownPid]: own,
    ...processes,
  })) {
    const path = join(proc, pid);
    mkdirSync(join(path, "ns"), { recursive: true });
    writeFileSync(join(path, "cmdline"), cmdline);
    if (exe !== undefined) symlinkSync(exe, join(path, "exe"));
    if (namespace !== undefined) symlinkSync(namespace, join(path, "ns", "net"));
  }
  return proc;
}

/** No process listens on loopback port 1. */
const nobody = "http://127.0.0.1:1/proxyMode";
let listening = listListeningSockets;
const search = (procPath: string, modeUrl = nobody): Promise<OtherProxy | undefined> =>
  findOtherProxy({ procPath, ownPid, modeUrl, answerTimeoutMs: 60_000, listening });

const same = "net:[1]";

describe("a process list", () => {
  const cases: readonly {
    readonly name: string;
    readonly process: FakeProcess;
    readonly want: string | undefined;
  }[] = [
    {
      name: "with a kube-proxy in the same network namespace",
      process: {
        cmdline: "/usr/local/bin/kube-proxy\0--v=2\0",
        exe: "/kube-proxy",
        namespace: same,
      },
      want: "/usr/local/bin/kube-proxy --v=2",
    },
    {
      name: "with one whose program cannot be read",
      process: { cmdline: "kube-proxy\0", namespace: same },
      want: "kube-proxy",
    },
    {
      name: "with one in another network namespace",
      process: { cmdline: "kube-proxy\0", namespace: "net:[2]" },
      want: undefined,
    },
    {
      name: "with one whose namespace cannot be read",
      process: { cmdline: "kube-proxy\0" },
      want: undefined,
    },
    {
      name: "with another kube-ipvs under that name",
      process: { cmdline: "kube-proxy\0--v=2\0", exe: "/opt/node24/bin/node", namespace: same },
      want: undefined,
    },
    {
      name: "with a program that only mentions it",
      process: { cmdline: "grep\0kube-proxy\0", namespace: same },
      want: undefined,
    },
    { name: "with an exited one", process: { cmdline: "", namespace: same }, want: undefined },
    {
      name: "with a hostile command line",
      process: { cmdline: "kube-proxy\0\u001b[2J\n", namespace: same },
      want: "kube-proxy ?[2J",
    },
  ];
  for (const { name, process, want } of cases) {
    it(name, async () => {
      const found = await search(procWith({ 77: process }));
      const expected = want === undefined ? undefined : { kind: "process", pid: 77, command: want };
      assert.deepEqual(found, expected);
    });
  }

  it("that is missing", async () => {
    assert.equal(await search(join(folder, "missing")), undefined);
  });
});

describe("the mode port", () => {
  const cases: readonly (readonly [name: string, respond: RequestListener, mode?: string])[] = [
    ["answers with a mode", (_, response) => response.end("iptables"), "iptables"],
    ["answers with something else", (_, response) => response.end("<html>")],
    ["answers endlessly", (_, response) => void response.write("x".repeat(1_000_000))],
    ["hangs up", (request) => request.socket.destroy()],
  ];
  for (const [name, respond, mode] of cases) {
    it(name, async () => {
      const server = createServer(respond).listen(0, "127.0.0.1");
      await once(server, "listening");
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/proxyMode`;
      const found = await search(procWith({}), url);
      assert.deepEqual(found, mode === undefined ? undefined : { kind: "port", url, mode });
      server.closeAllConnections();
      server.close();
    });
  }
});

describe("the mode port, by the user who listens", () => {
  after(() => {
    listening = listListeningSockets;
  });

  /** Whether an answer is accepted while these users listen on the port. */
  async function counts(...sockets: readonly (readonly [string, number])[]): Promise<boolean> {
    const server = createServer((_, response) => response.end("iptables"));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    listening = () =>
      sockets.map(([address, uid]) => ({ protocol: "TCP", address: ip(address), port, uid }));
    const found = await search(procWith({}), `http://127.0.0.1:${port}/proxyMode`);
    server.close();
    return found !== undefined;
  }

  it("is not queried if a non-root user listens there", async () => {
    assert.equal(await counts(["127.0.0.1", 1_000]), false);
    assert.equal(await counts(["0.0.0.0", 0], ["127.0.0.1", 1_000]), false);
    assert.equal(await counts(["::", 1_000], ["192.168.1.1", 0]), false);
  });

  it("is queried if root listens there", async () => {
    assert.equal(await counts(["0.0.0.0", 0]), true);
  });
});

describe("the message", () => {
  const cases: readonly (readonly [proxy: OtherProxy, want: string])[] = [
    [{ kind: "process", pid: 77, command: "kube-proxy --v=2" }, "process 77 (kube-proxy --v=2)"],
    [
      { kind: "port", url: "http://127.0.0.1:10249/proxyMode", mode: "iptables" },
      "mode iptables, serving http://127.0.0.1:10249/proxyMode",
    ],
  ];
  for (const [proxy, want] of cases) {
    it(`names a proxy that was detected by its ${proxy.kind}, and a remedy`, () => {
      assert.equal(
        new OtherProxyError(proxy).message,
        `Cannot start while kube-proxy is running: ${want}; remove it from this node first, or set --kube-ipvs-wait-for-kube-proxy`,
      );
    });
  }
});

interface Waiting {
  readonly result: () => string;
  readonly clock: FakeClock;
  readonly abort: AbortController;
}

describe("waiting for kube-proxy", () => {
  const running: OtherProxy = { kind: "process", pid: 77, command: "kube-proxy" };

  async function waitWith(
    answers: readonly (OtherProxy | undefined)[],
    seconds: number,
  ): Promise<Waiting> {
    const clock = new FakeClock();
    const abort = new AbortController();
    let checks = 0;
    let result = "waiting";
    const find = async (): Promise<OtherProxy | undefined> => answers[checks++];
    otherProxyGone({ clock, log: silentLogger }, abort.signal, find).then(
      () => {
        result = "gone";
      },
      () => {
        result = "aborted";
      },
    );
    await clock.advance(seconds * 1_000);
    return { result: () => result, clock, abort };
  }

  it("ends immediately if none is running", async () => {
    assert.equal((await waitWith([undefined], 0)).result(), "gone");
  });

  it("ends 5 s after kube-proxy has stopped, and a restart during this time resets it", async () => {
    const answers = [running, running, undefined, undefined, running];
    assert.equal((await waitWith(answers, 8)).result(), "waiting");
    assert.equal((await waitWith(answers, 9)).result(), "gone");
  });

  it("ends when the program is stopped", async () => {
    const { result, clock, abort } = await waitWith(Array(100).fill(running), 2);
    abort.abort();
    await clock.advance(0);
    assert.equal(result(), "aborted");
  });
});
