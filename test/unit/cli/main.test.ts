import assert from "node:assert/strict";
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { listOf } from "../../../src/answer/answer.ts";
import type { ServiceRow } from "../../../src/answer/rows.ts";

const main = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the program itself. */
function program(...args: string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [main, ...args], (_, out, err) =>
      resolve({ code: child.exitCode ?? -1, out, err }),
    );
  });
}

function serviceRow(index: number): ServiceRow {
  return {
    ...{ namespace: "default", name: `svc-${index}`, type: "ClusterIP", frontend: "cluster-ip" },
    ...{ protocol: "TCP", address: "10.96.0.10", port: 80, scheduler: "rr", affinitySeconds: 0 },
    ...{ trafficPolicy: "Cluster", realServers: { planned: 1, programmed: 1, draining: 0 } },
  };
}

describe("the process", () => {
  it("exits with 0 after --version", async () => {
    const { code, out, err } = await program("--version");
    assert.deepEqual([code, err], [0, ""]);
    assert.match(out, /^Kubernetes v/);
  });

  it("writes all of --help to a pipe", async () => {
    const { code, out } = await program("--help");
    assert.equal(code, 0);
    assert.match(
      out,
      /--proxy-port-range <range>\n {8}no effect: .*\n[\s\S]*\n {2}kube-ipvs --cleanup\n$/,
    );
  });

  it("writes a long answer to a pipe with a slow reader", async (test) => {
    const folder = mkdtempSync(join(tmpdir(), "main-"));
    const socket = join(folder, "operator.sock");
    const items = Array.from({ length: 10_000 }, (_, index) => serviceRow(index));
    const server = createServer((_, response) =>
      response.end(JSON.stringify(listOf("ServiceList", items))),
    );
    server.listen(socket);
    await once(server, "listening");
    test.after(() => {
      server.close();
      rmSync(folder, { recursive: true });
    });
    const line = `"$@" | (sleep 1; cat)`;
    const argv = [
      "services",
      "-A",
      `--kube-ipvs-operator-socket=${socket}`,
      `--manifests=${folder}`,
    ];
    const child = spawn("sh", ["-c", line, "sh", process.execPath, main, ...argv], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const out: Buffer[] = [];
    for await (const part of child.stdout) out.push(part as Buffer);
    assert.equal(Buffer.concat(out).toString().trimEnd().split("\n").length, 1 + items.length);
  });

  it("ends --watch if its reader closes the pipe", async (test) => {
    const folder = mkdtempSync(join(tmpdir(), "main-"));
    const socket = join(folder, "operator.sock");
    let count = 0;
    const server = createServer((_, response) => {
      count += 1;
      response.end(JSON.stringify(listOf("ServiceList", [serviceRow(count)])));
    });
    server.listen(socket);
    await once(server, "listening");
    const argv = ["services", "--watch", `--kube-ipvs-operator-socket=${socket}`];
    const child = spawn(process.execPath, [main, ...argv], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    test.after(() => {
      child.kill();
      server.close();
      rmSync(folder, { recursive: true });
    });
    await once(child.stdout, "data");
    child.stdout.destroy();
    const [code] = await once(child, "exit", { signal: AbortSignal.timeout(60_000) });
    assert.equal(code, 0);
  });

  it("exits with 1 and the reason if its output cannot be written", () => {
    const command = `${process.execPath} ${main} --help > /dev/full`;
    const { status, stderr } = spawnSync("sh", ["-c", command], { encoding: "utf8" });
    assert.equal(status, 1);
    assert.equal(
      stderr,
      "kube-ipvs: Cannot write to standard output: ENOSPC: no space left on device\n",
    );
  });

  it("exits with 0 if its reader closes the pipe early", () => {
    const command = `${process.execPath} ${main} --help | head -1; echo`;
    const { stdout, stderr } = spawnSync("sh", ["-c", command], { encoding: "utf8" });
    assert.deepEqual([stdout, stderr], ["Usage: kube-ipvs [command] [flags]\n\n", ""]);
  });

  it("reads stdin if it is a socket", () => {
    const { status, stdout } = spawnSync(process.execPath, [main, "__nodes", "status"], {
      input: "= n1 1\n!no answer\n",
      encoding: "utf8",
    });
    assert.equal(status, 1);
    assert.match(stdout, /^n1 .* no answer$/m);
  });

  it("waits for input that arrives later", () => {
    const lines = "sleep 3; echo '= n1 1'; echo '!no answer'";
    const command = `(${lines}) | ${process.execPath} ${main} __nodes status`;
    const { stdout, stderr } = spawnSync("sh", ["-c", command], { encoding: "utf8" });
    assert.equal(stderr, "");
    assert.match(stdout, /^n1 .* no answer$/m);
  });

  it("exits with 1 and one line on stderr after a mistake", async () => {
    const { code, out, err } = await program("--proxy-mode", "nftables", "--v=1");
    assert.deepEqual([code, out], [1, ""]);
    assert.match(
      err,
      /^E\d{4} \S+ +\d+ kube-ipvs:1\] "Invalid configuration" path="--proxy-mode" [^\n]*\n$/,
    );
  });

  const skip =
    process.getuid?.() === 0 ? false : "it needs root: the program looks for NET_ADMIN first";
  it("exits with 0 after SIGTERM while it reads its configuration", { skip }, async (test) => {
    const folder = mkdtempSync(join(tmpdir(), "main-"));
    test.after(() => rmSync(folder, { recursive: true }));
    const fifo = join(folder, "config.conf");
    execFileSync("mkfifo", [fifo]);
    const child = spawn(process.execPath, [main, "--config", fifo, "--manifests", folder]);
    const ended = once(child, "exit");
    // Opening the FIFO blocks until the program reads from it.
    const file = await open(fifo, "w");
    child.kill("SIGTERM");
    await file.writeFile(
      "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n",
    );
    await file.close();
    assert.deepEqual(await ended, [0, null]);
  });
});
