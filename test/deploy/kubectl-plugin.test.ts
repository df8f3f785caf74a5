/** The shim `kubectl kube-ipvs`, with a kubectl that writes down what it is asked. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, beforeEach, describe, it } from "node:test";

const shim = join(import.meta.dirname, "../../deploy/kubectl-kube_ipvs");
const folder = mkdtempSync(join(tmpdir(), "kubectl-"));
const log = join(folder, "log");
after(() => rmSync(folder, { recursive: true }));

/** Each argument in brackets, a call a line; `exec` ends with 2, as a command in the pod may. */
writeFileSync(
  join(folder, "kubectl"),
  `#!/bin/sh
for argument; do printf '[%s]' "$argument" >> ${log}; done
echo >> ${log}
case " $* " in
  *" get "*) case $* in *nodeName=gone*) ;; *) echo pod/kube-ipvs-a; echo pod/kube-ipvs-b ;; esac ;;
  *) echo "answer"; exit 2 ;;
esac
`,
  { mode: 0o755 },
);

function run(...args: readonly string[]): {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
  readonly calls: readonly string[];
} {
  const { status, stdout, stderr } = spawnSync(shim, args, {
    encoding: "utf8",
    env: { PATH: `${folder}:/usr/bin:/bin` },
  });
  const calls = readFileSync(log, "utf8").split("\n").slice(0, -1);
  return { code: status, out: stdout, err: stderr, calls };
}

beforeEach(() => writeFileSync(log, ""));

const get = (field: string, namespace = "kube-system"): string =>
  `[get][pods][-n][${namespace}][-l][k8s-app=kube-ipvs][--field-selector][${field}][-o][name]`;
const exec = (words: string): string =>
  `[exec][-i][-n][kube-system][pod/kube-ipvs-a][-c][kube-ipvs][--][kube-ipvs]${words}`;
const running = "status.phase=Running";

describe("kubectl kube-ipvs", () => {
  it("runs the command in the node's pod, and returns its exit code", () => {
    const { code, out, calls } = run("--node", "worker-3", "status", "-o", "json");
    assert.deepEqual(calls, [get(`${running},spec.nodeName=worker-3`), exec("[status][-o][json]")]);
    assert.deepEqual([code, out], [2, "answer\n"]);
  });

  it("uses the first running pod if no node is named", () => {
    assert.deepEqual(run("plan").calls, [get(running), exec("[plan]")]);
  });

  it("passes everything after the command on unchanged", () => {
    const words = ["services", "--namespace=a b", "it's", "$(reboot)", "-n", "*"];
    assert.deepEqual(
      run("--node=n", ...words).calls.at(-1),
      exec(words.map((word) => `[${word}]`).join("")),
    );
  });

  it("passes kubectl's own options to kubectl", () => {
    const { calls } = run("--context", "it's $HOME", "--as=me", "-n", "proxies", "status");
    assert.equal(calls[0], `[--context=it's $HOME][--as=me]${get(running, "proxies")}`);
    const own = "[--context=it's $HOME][--as=me]";
    assert.equal(calls[1], own + exec("[status]").replace("[kube-system]", "[proxies]"));
  });

  it("runs the command in the named container", () => {
    const { calls } = run("-c", "kube-proxy", "status");
    assert.equal(calls[1], exec("[status]").replace("[-c][kube-ipvs]", "[-c][kube-proxy]"));
  });

  it("rejects a node that is named after the command", () => {
    for (const words of [
      ["status", "--node", "n1"],
      ["status", "--node=n1"],
    ]) {
      const { code, err, calls } = run(...words);
      assert.deepEqual([code, calls], [1, []]);
      assert.match(err, /--node comes before the command: kubectl kube-ipvs --node NODE status/);
    }
  });

  it("reports that no pod runs", () => {
    const { code, err, calls } = run("--node", "gone", "status");
    assert.equal(calls.length, 1);
    assert.equal(code, 1);
    assert.match(err, /no running pod with k8s-app=kube-ipvs in kube-system on node gone/);
  });

  it("knows its options, and lists them", () => {
    assert.match(run("--nod", "x", "status").err, /unknown option --nod /);
    assert.match(run("--node").err, /--node needs a value/);
    assert.deepEqual(run("--help").code, 0);
    assert.match(run("--help").out, /^Usage: kubectl kube-ipvs /);
    const none = run();
    assert.deepEqual([none.code, none.calls], [1, []]);
  });
});
