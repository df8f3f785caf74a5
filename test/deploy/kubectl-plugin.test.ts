/** Tests the shim `kubectl kube-ipvs` with a kubectl that records its arguments or answers for 50 nodes. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, beforeEach, describe, it } from "node:test";
import { answerProblems } from "../support/answer-schemas.ts";
import { ManyPods } from "../support/many-pods.ts";

const shim = join(import.meta.dirname, "../../deploy/kubectl-kube_ipvs");
const folder = mkdtempSync(join(tmpdir(), "kubectl-"));
const log = join(folder, "log");
after(() => rmSync(folder, { recursive: true }));

/**
 * A fake kubectl that logs each call on its own line, with each argument in brackets. Its `exec` exits with 2, as a
 * command in the pod may.
 */
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
  it("runs the command in the node's pod and returns its exit code", () => {
    const { code, out, calls } = run("--node", "worker-3", "status", "-o", "json");
    assert.deepEqual(calls, [get(`${running},spec.nodeName=worker-3`), exec("[status][-o][json]")]);
    assert.deepEqual([code, out], [2, "answer\n"]);
  });

  it("uses the first running pod if no node is named", () => {
    assert.deepEqual(run("plan").calls, [get(running), exec("[plan]")]);
  });

  it("passes on everything after the command unchanged", () => {
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

  it("reports that no pod is running", () => {
    const { code, err, calls } = run("--node", "gone", "status");
    assert.equal(calls.length, 1);
    assert.equal(code, 1);
    assert.match(err, /no running pod with k8s-app=kube-ipvs in kube-system on node gone/);
  });

  it("accepts its options and lists them in its help", () => {
    assert.match(run("--nod", "x", "status").err, /unknown option --nod /);
    assert.match(run("--node").err, /--node needs a value/);
    assert.deepEqual(run("--help").code, 0);
    assert.match(run("--help").out, /^Usage: kubectl kube-ipvs /);
    for (const line of run("--help").out.split("\n")) assert.ok(line.length <= 80, line);
    const none = run();
    assert.deepEqual([none.code, none.calls], [1, []]);
  });
});

const many = new ManyPods();
after(() => many.remove());

function runOnNodes(...args: readonly string[]): ReturnType<typeof runTogether> {
  return runTogether("", "--timeout", "2", ...args);
}

function runTogether(
  together: string,
  ...args: readonly string[]
): {
  readonly code: number | null;
  readonly lines: readonly string[];
  readonly err: string;
} {
  const { status, stdout, stderr } = many.run(args, together);
  return { code: status, lines: stdout.split("\n").slice(0, -1), err: stderr };
}

describe("kubectl kube-ipvs --all-nodes", () => {
  it("prints the answers of all other nodes if one node does not answer in time", () => {
    const { code, lines, err } = runTogether("", "--timeout", "10", "status", "--all-nodes");
    assert.equal(lines.length, 51, err);
    assert.match(lines[0] ?? "", /^NODE +VERDICT +MODE +VERSION +SUMMARY$/);
    assert.match(lines[1] ?? "", /^node-1 +OK +ipvs +0\.2\.0 +3 Services$/);
    assert.match(lines[7] ?? "", /^node-7 +- +- +- +no answer within 10 s$/);
    assert.match(lines[8] ?? "", /^node-8 +- +- +- +Cannot query kube-ipvs$/);
    assert.match(lines[9] ?? "", /^node-9 +Degraded +- +- +1 object rejected$/);
    assert.match(lines[10] ?? "", /^node-10 +- +- +- +pod pod-10 is Pending$/);
    assert.match(lines[50] ?? "", /^node-50 /);
    // The worst exit code, which is that of the degraded node.
    assert.equal(code, 2);
    const ended = many.ended();
    assert.deepEqual([ended.length, ended.at(-1)], [49, "pod-7"]);
  });

  for (const command of ["status", "services", "doctor", "explain", "drains", "compare"]) {
    it(`runs ${command} on all nodes at the same time`, () => {
      // No command of a node returns before those of all 49 nodes with a running pod have started.
      const { lines, err } = runTogether("49", "--timeout", "60", command, "--all-nodes");
      assert.equal(err, "");
      assert.ok(lines.length > 1);
      assert.doesNotMatch(lines.join("\n"), /no answer/);
    });
  }

  it("queries the nodes that a selector matches, including those without a pod", () => {
    const { code, lines } = runOnNodes("status", "-l", "zone=a", "-o", "json");
    const text = lines.join("\n");
    assert.deepEqual(answerProblems("all-nodes", text), []);
    const { kind, items } = JSON.parse(text);
    assert.deepEqual(
      [
        kind,
        items.map(({ node, exitCode, error }: Record<string, unknown>) => [node, exitCode, error]),
      ],
      [
        "NodeList",
        [
          ["node-2", 0, undefined],
          ["node-9", 2, undefined],
          ["unserved", 1, "no kube-ipvs pod"],
        ],
      ],
    );
    assert.equal(code, 2);
    assert.match(many.calls(), /get nodes -l zone=a -o name/);
  });

  it("shows the rows of each command with the name of their node", () => {
    const row = (command: string, node: number): string => {
      const { lines } = runOnNodes(command, "-l", "zone=a");
      return lines[node] ?? "";
    };
    assert.match(row("doctor", 1), /^node-2 +warn +b +two$/);
    assert.match(row("explain", 2), /^node-9 +balanced +Packets are balanced$/);
    assert.match(row("services", 2), /^node-2 +shop +web .* 10\.96\.0\.2:80 .* 2\/2 /);
    assert.match(row("drains", 1), /^node-9 .* command terminated with exit code 137$/);
    assert.match(row("drains", 2), /^unserved .* no kube-ipvs pod$/);
  });

  it("compares all nodes, with rows for those that do not answer or differ", () => {
    const { code, lines } = runOnNodes("compare", "shop/web");
    assert.deepEqual(
      lines.map((line) => line.replaceAll(/ +/g, " ")),
      [
        "NODE SERVICE FRONTEND SINCE CAUSE DIFFERENCE",
        "node-7 - - - - no answer within 2 s",
        "node-8 - - - - Cannot query kube-ipvs",
        "node-10 - - - - pod pod-10 is Pending",
        "node-3 shop/web TCP 10.96.0.2:80 - - lacks scheduler rr; has scheduler wlc",
      ],
    );
    assert.equal(code, 2);
    assert.match(many.calls(), /kube-ipvs compare shop\/web -o json/);
    const text = runOnNodes("compare", "-l", "zone=a", "-o", "json").lines.join("\n");
    assert.deepEqual(answerProblems("compare", text), []);
    const { nodeCount, items } = JSON.parse(text);
    assert.deepEqual([nodeCount, items.length], [2, 1]);
  });

  it("rejects commands that are meaningless for many nodes", () => {
    assert.match(runOnNodes("plan", "--all-nodes").err, /plan runs on one node/);
    assert.match(runOnNodes("status", "--watch", "--all-nodes").err, /--watch needs one node/);
    assert.match(runOnNodes("--node", "n", "status", "--all-nodes").err, /mutually exclusive/);
  });
});
