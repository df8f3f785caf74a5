/**
 * Tests `deploy/roll-out` with a kubectl stub that stores nodes in files, and calls the real kubectl to patch
 * kube-proxy's DaemonSet.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, beforeEach, describe, it } from "node:test";
import { readManifests } from "../support/container/pod.ts";
import {
  type DaemonSet,
  daemonSetsOf,
  type NodeSelectorTerms,
  runsOn,
  termsOf,
} from "./placement.ts";

const script = join(import.meta.dirname, "../../deploy/roll-out");
const folder = mkdtempSync(join(tmpdir(), "roll-out-"));
after(() => rmSync(folder, { recursive: true }));
const nodes = ["node-1", "node-2", "node-3"];

writeFileSync(
  join(folder, "kubectl"),
  `#!/bin/sh
cd ${folder}
[ ! -e unreachable ] || { printf 'E1129 memcache.go:265] refused\\nThe connection was refused\\n' >&2; exit 1; }
local_patch() { /usr/bin/kubectl patch --local -f proxy.json "$@"; }
case "$*" in
  *"get daemonset kube-ipvs-clean-up"*) [ ! -e missing-kube-ipvs-clean-up ] ;;
  *"get daemonset kube-proxy --ignore-not-found"*) [ -e missing-kube-proxy ] || echo daemonset.apps/kube-proxy ;;
  *"get daemonset"*) shift 5; local_patch --type merge -p '{}' "$@" ;;
  *"patch daemonset"*) shift 5; local_patch "$@" -o json > new.json && mv new.json proxy.json; echo patch >> log ;;
  "label nodes"*)
    shift 2
    for word; do case $word in *-) value= ;; *=*) value=\${word#*=} ;; esac; done
    for node; do case $node in node-?) echo "$value" > "labels/$node" && echo "label $node $value" >> log ;; esac; done ;;
  *"get nodes"*)
    for node in ${nodes.join(" ")}; do
      value=$(cat labels/$node)
      case "$*" in
        *!=kube-ipvs*) [ "$value" = kube-ipvs ] || printf '%s ' $node ;;
        *=kube-ipvs*) [ "$value" != kube-ipvs ] || printf '%s ' $node ;;
        *) printf '%s ' $node ;;
      esac
    done ;;
  *"get pods"*"-o name") echo "pod/\${6#*=}-\${8#*=}" ;;
  *"get pods"*) echo "\${6#*=}-\${8#*=} 0/1 ImagePullBackOff" ;;
  *" logs "*) pod=\${4#pod/kube-ipvs-}; [ -e "silent-$pod" ] || { echo "wait $pod" >> log; echo 'Waiting for kube-proxy to stop'; } ;;
  *" wait "*)
    for pod; do :; done
    pod=\${pod#pod/kube-ipvs-}
    pod=\${pod#pod/}
    [ ! -e "unready-$pod" ] && echo "ready $pod" >> log ;;
  *"rollout status"*) ;;
  *) echo "unexpected: $*" >&2; exit 9 ;;
esac
`,
  { mode: 0o755 },
);
writeFileSync(
  join(folder, "e2e"),
  `#!/bin/sh
if [ "$1" = --only-connect ]; then
  [ "\${KUBECONFIG-}" = ${folder}/.kube/config ] || { echo 'Error: no API server' >&2; exit 2; }
  exit
fi
echo "test $4" >> ${folder}/log
[ ! -e ${folder}/failing ]
`,
  { mode: 0o755 },
);

/** kube-proxy's DaemonSet as kubeadm creates it, or with a provider's node selector terms. */
function install(terms?: NodeSelectorTerms): void {
  const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } };
  const affinity = terms === undefined ? {} : { affinity: { nodeAffinity: required } };
  const spec = {
    selector: { matchLabels: { "k8s-app": "kube-proxy" } },
    updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 1 } },
    template: {
      metadata: { labels: { "k8s-app": "kube-proxy" } },
      spec: { ...affinity, containers: [{ name: "kube-proxy", image: "kube-proxy" }] },
    },
  };
  const object = {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: "kube-proxy" },
    spec,
  };
  writeFileSync(join(folder, "proxy.json"), JSON.stringify(object));
}

const proxy = (): DaemonSet => JSON.parse(readFileSync(join(folder, "proxy.json"), "utf8"));
const [kubeIpvs, cleanUp] = ["replace-kube-proxy", "clean-up"].map((name) => {
  const [daemonSet] = daemonSetsOf(readManifests(name));
  assert.ok(daemonSet !== undefined);
  return daemonSet;
}) as [DaemonSet, DaemonSet];

interface Outcome {
  readonly code: number | null;
  readonly text: string;
}
const usualEnvironment: Readonly<Record<string, string>> = {
  ...{ PATH: `${folder}:/usr/bin:/bin`, HOME: folder },
  ...{ E2E: join(folder, "e2e"), PATIENCE: "0" },
};
const run = (...args: readonly string[]): Outcome => runWith(usualEnvironment, ...args);

function runWith(env: Readonly<Record<string, string>>, ...args: readonly string[]): Outcome {
  const { status, stdout, stderr } = spawnSync(script, args, { encoding: "utf8", env });
  return { code: status, text: stdout + stderr };
}
const steps = (): readonly string[] =>
  readFileSync(join(folder, "log"), "utf8")
    .split("\n")
    .filter((line) => line !== "" && line !== "patch");
/** Whether no node was labeled and no DaemonSet was patched. */
const isUnchanged = (): boolean => readFileSync(join(folder, "log"), "utf8") === "";
const mark = (name: string): void => writeFileSync(join(folder, name), "");
const labelOf = (node: string): string => readFileSync(join(folder, "labels", node), "utf8").trim();

beforeEach(() => {
  for (const node of nodes) {
    rmSync(join(folder, `silent-${node}`), { force: true });
    rmSync(join(folder, `unready-${node}`), { force: true });
    rmSync(join(folder, `unready-kube-proxy-${node}`), { force: true });
    rmSync(join(folder, `unready-clean-up-${node}`), { force: true });
    mkdirSync(join(folder, "labels"), { recursive: true });
    writeFileSync(join(folder, "labels", node), "");
  }
  rmSync(join(folder, "failing"), { force: true });
  rmSync(join(folder, "unreachable"), { force: true });
  rmSync(join(folder, "missing-kube-proxy"), { force: true });
  rmSync(join(folder, "missing-kube-ipvs-clean-up"), { force: true });
  mark("log");
  mkdirSync(join(folder, ".kube"), { recursive: true });
  mark(".kube/config");
  install();
});

const hasKubectl = spawnSync("/usr/bin/kubectl", ["version", "--client"]).status === 0;

describe("deploy/roll-out", { skip: hasKubectl ? false : "no kubectl here" }, () => {
  it("takes over one node at a time: checks that kube-ipvs is waiting there, stops kube-proxy, and tests the node", () => {
    const { code, text } = run("start", "--all");
    assert.equal(code, 0, text);
    const expected = nodes.flatMap((node) => [
      ...[`label ${node} `, `wait ${node}`, `label ${node} kube-ipvs`],
      ...[`ready ${node}`, `test ${node}`],
    ]);
    assert.deepEqual(steps(), expected);
  });

  it("takes over all nodes of a wave together, and skips nodes that kube-ipvs already serves", () => {
    writeFileSync(join(folder, "labels/node-1"), "kube-ipvs\n");
    assert.equal(run("--wave", "5", "start", "--all").code, 0);
    assert.deepEqual(
      steps().filter((step) => step.startsWith("test")),
      ["test node-2,node-3"],
    );
  });

  const failures: readonly (readonly [string, string])[] = [
    ["silent-node-2", "node-2: kube-ipvs is not waiting for kube-proxy"],
    ["unready-node-2", "node-2: kube-ipvs is not ready"],
  ];
  for (const [name, message] of failures) {
    it(`returns the wave to kube-proxy and stops: ${message}`, () => {
      mark(name);
      const { code, text } = run("start", "--all");
      assert.equal(code, 1);
      assert.ok(text.includes(message), text);
      assert.match(text, /kube-ipvs-node-2 0\/1 ImagePullBackOff\nSee docs\/troubleshooting\.md/);
      assert.deepEqual(nodes.map(labelOf), ["kube-ipvs", "kube-proxy", ""]);
    });
  }

  it("leaves a node to kube-proxy if kube-ipvs is not waiting there", () => {
    mark("silent-node-1");
    run("start", "node-1");
    assert.ok(!steps().includes("label node-1 kube-ipvs"));
  });

  it("returns the wave to kube-proxy and stops if the test fails", () => {
    mark("failing");
    const { code, text } = run("start", "--all");
    assert.equal(code, 1);
    assert.match(
      text,
      /node-1: the acceptance test failed\n.*\n.*returned these nodes to kube-proxy: node-1/,
    );
    assert.deepEqual(nodes.map(labelOf), ["kube-proxy", "", ""]);
  });

  it("does not restart kube-proxy's pods, and keeps its node selector terms", () => {
    const own = { key: "compute-type", operator: "NotIn", values: ["fargate"] };
    const other = { key: "arch", operator: "In", values: ["amd64"] };
    install([{ matchExpressions: [own] }, { matchExpressions: [other] }]);
    run("start", "node-1");
    run("start", "node-2");
    const added = {
      key: "kube-ipvs.io/proxy",
      operator: "NotIn",
      values: ["kube-ipvs", "clean-up"],
    };
    assert.deepEqual(termsOf(proxy()), [
      { matchExpressions: [own, added] },
      { matchExpressions: [other, added] },
    ]);
    assert.deepEqual(proxy().spec.updateStrategy, { type: "OnDelete" });
  });

  it("leaves one proxy on each node at every step, including on added nodes, and none during a clean-up", () => {
    const placed = (label?: string): readonly boolean[] =>
      [proxy(), kubeIpvs, cleanUp].map((daemonSet) => runsOn(daemonSet, label));
    run("start", "node-1");
    // kube-ipvs waits while kube-proxy is running.
    assert.deepEqual(placed(), [true, true, false]);
    for (const finish of [false, true]) {
      if (finish) assert.deepEqual([run("start", "--all").code, run("finish").code], [0, 0]);
      assert.deepEqual(placed("kube-ipvs"), [false, true, false]);
      assert.deepEqual(placed("kube-proxy"), [true, false, false]);
      assert.deepEqual(placed("clean-up"), [false, false, true]);
    }
    assert.deepEqual(placed(), [false, true, false]);
    install();
    assert.equal(run("back", "--clean", "node-1").code, 0);
    assert.deepEqual(placed("clean-up"), [false, false, true]);
  });

  it("does not finish until kube-ipvs serves all nodes", () => {
    run("start", "node-1", "node-2");
    const { code, text } = run("finish");
    assert.equal(code, 1);
    assert.match(text, /kube-ipvs is not serving node-3\n/);
    assert.equal(runsOn(proxy(), undefined), true);
  });

  it("returns nodes to kube-proxy in one command", () => {
    run("start", "--all");
    assert.equal(run("back", "--all").code, 0);
    assert.deepEqual(nodes.map(labelOf), ["kube-proxy", "kube-proxy", "kube-proxy"]);
  });

  it("cleans one node at a time, and starts kube-proxy there before it cleans the next node", () => {
    run("start", "--all");
    mark("log");
    const { code, text } = run("back", "--clean", "--all");
    assert.equal(code, 0, text);
    const expected = nodes.flatMap((node) => [
      ...[`label ${node} clean-up`, `ready clean-up-${node}`],
      ...[`label ${node} kube-proxy`, `ready kube-proxy-${node}`],
    ]);
    assert.deepEqual(steps(), expected);
  });

  it("starts kube-proxy on a node that it cannot clean, and leaves the other nodes to kube-ipvs", () => {
    run("start", "--all");
    mark("unready-clean-up-node-2");
    const { code, text } = run("back", "--clean", "--all");
    assert.equal(code, 1);
    assert.match(
      text,
      /node-2: kube-ipvs-clean-up is not ready after .*\nkube-ipvs-clean-up-node-2 /,
    );
    assert.match(
      text,
      /node-2: kube-proxy is ready\nroll-out: a step failed on these nodes: node-2\n$/,
    );
    assert.deepEqual(nodes.map(labelOf), ["kube-proxy", "kube-proxy", "kube-ipvs"]);
  });

  it("cleans a node whose test failed, but not a node where kube-proxy is still running", () => {
    mark("failing");
    assert.equal(run("start", "--clean", "node-1").code, 1);
    assert.deepEqual(steps().slice(-4), [
      ...["label node-1 clean-up", "ready clean-up-node-1"],
      ...["label node-1 kube-proxy", "ready kube-proxy-node-1"],
    ]);
    mark("silent-node-2");
    assert.equal(run("start", "--clean", "node-2").code, 1);
    assert.ok(!steps().includes("label node-2 clean-up"));
    assert.equal(labelOf("node-2"), "kube-proxy");
  });

  it("changes nothing if --clean lacks its DaemonSet", () => {
    mark("missing-kube-ipvs-clean-up");
    for (const command of ["start", "back"]) {
      const { code, text } = run(command, "--clean", "--all");
      assert.deepEqual([code, isUnchanged()], [1, true]);
      assert.match(text, /needs the DaemonSet kube-ipvs-clean-up: see docs\/clean-up\.md\n$/);
    }
  });

  it("tests nodes when kube-ipvs is ready there, and exits with 1 if the test fails", () => {
    assert.equal(run("test", "node/node-1", "node-2").code, 0);
    assert.deepEqual(steps(), ["ready node-1", "ready node-2", "test node-1,node-2"]);
    mark("failing");
    assert.equal(run("test", "--all").code, 1);
    mark("unready-node-3");
    assert.match(run("test", "node-3").text, /node-3: kube-ipvs is not ready after/);
  });

  describe("if kube-proxy is not a DaemonSet", () => {
    const commands = {
      STOP_KUBE_PROXY: `[ ! -e ${folder}/failing-stop ] && echo "stop $NODE" >> ${folder}/log`,
      START_KUBE_PROXY: `echo "start $NODE" >> ${folder}/log`,
    };
    const runCommands = (...args: readonly string[]): Outcome =>
      runWith({ ...usualEnvironment, ...commands }, ...args);
    beforeEach(() => {
      mark("missing-kube-proxy");
      rmSync(join(folder, "failing-stop"), { force: true });
    });

    it("stops it with a command, on nodes where kube-ipvs is waiting", () => {
      const { code, text } = runCommands("--wave", "2", "start", "node-1", "node-2");
      assert.equal(code, 0, text);
      assert.deepEqual(steps(), [
        ...["label node-1 ", "label node-2 ", "wait node-1", "wait node-2"],
        ...["label node-1 kube-ipvs", "label node-2 kube-ipvs", "stop node-1", "stop node-2"],
        ...["ready node-1", "ready node-2", "test node-1,node-2"],
      ]);
    });

    it("cleans nodes and starts it again with a command", () => {
      assert.equal(runCommands("back", "--clean", "node-1").code, 0);
      assert.deepEqual(steps(), [
        ...["label node-1 clean-up", "ready clean-up-node-1"],
        ...["label node-1 kube-proxy", "start node-1"],
      ]);
    });

    it("returns a wave whose test failed", () => {
      mark("failing");
      const { code, text } = runCommands("start", "--all");
      assert.equal(code, 1);
      assert.match(text, /returned these nodes to kube-proxy: node-1\n$/);
      assert.deepEqual(steps().slice(-2), ["label node-1 kube-proxy", "start node-1"]);
    });

    it("stops at a wave that fails, whose nodes keep their proxy if there is no command to start kube-proxy", () => {
      const { STOP_KUBE_PROXY } = commands;
      for (const name of ["failing", "failing-stop", "silent-node-1"]) {
        mark(name);
        const { code, text } = runWith({ ...usualEnvironment, STOP_KUBE_PROXY }, "start", "--all");
        assert.equal(code, 1);
        assert.match(text, /stopped\. These nodes keep the proxy that is running there: node-1\n$/);
        assert.deepEqual(nodes.map(labelOf), ["", "", ""]);
      }
    });

    it("changes nothing without a command", () => {
      for (const [command, variable] of [
        ["start", "STOP_KUBE_PROXY"],
        ["back", "START_KUBE_PROXY"],
      ] as const) {
        const { code, text } = run(command, "--all");
        assert.match(text, new RegExp(`: set ${variable} \\(see --help\\)\n$`));
        assert.deepEqual([code, isUnchanged()], [1, true]);
      }
      assert.match(run("finish").text, /finish is not needed/);
    });
  });

  it("prints one line if the API server does not answer", () => {
    mark("unreachable");
    for (const command of ["start", "back"]) {
      assert.deepEqual(run(command, "--all"), {
        code: 1,
        text: "roll-out: The connection was refused\n",
      });
    }
    assert.deepEqual(steps(), []);
  });

  it("prints when kube-proxy is ready on each returned node, and fails if it is not", () => {
    assert.deepEqual(run("back", "node-1", "node-3"), {
      code: 0,
      text: "node-1: kube-proxy is ready\nnode-3: kube-proxy is ready\n",
    });
    mark("unready-kube-proxy-node-2");
    const { code, text } = run("back", "--all");
    assert.equal(code, 1);
    assert.match(text, /node-2: kube-proxy is not ready after .*\nkube-proxy-node-2 0\/1 Image/);
    assert.match(text, /node-3: kube-proxy is ready\n.*a step failed on these nodes: node-2\n$/);
  });

  it("prints progress while it waits", () => {
    mark("silent-node-1");
    const { text } = runWith({ ...usualEnvironment, PATIENCE: "2" }, "start", "node-1");
    assert.match(text, /^node-1: kube-ipvs is not waiting for kube-proxy yet \(\d of 2 s\)\n/);
  });

  it("changes nothing if the acceptance test is missing or cannot connect to the cluster", () => {
    rmSync(join(folder, ".kube/config"));
    const { code, text } = run("start", "--all");
    assert.equal(code, 1);
    assert.match(
      text,
      /cannot connect to the cluster. Set KUBECONFIG, or run make build again. Error: no API server\n$/,
    );
    const missing = runWith({ ...usualEnvironment, E2E: "/missing" }, "start", "--all");
    assert.deepEqual([missing.code, isUnchanged()], [1, true]);
  });

  it("changes nothing and exits with 2 if an argument is invalid", () => {
    const cases: readonly (readonly [RegExp, ...string[]])[] = [
      [/unknown command begin/, "begin"],
      [/unknown option --waves/, "--waves", "2", "start"],
      [/start needs node names, or --all/, "start"],
      [/does not have these Linux nodes: node-9/, "start", "node-1", "node-9"],
      [/does not have these Linux nodes: node-9/, "back", "node-9"],
      [/--wave must be .* not "x"/, "--wave", "x", "start", "node-1"],
      [/--wave must be .* not "0"/, "start", "--wave", "0", "--all"],
      [/--wave needs a value/, "start", "node-1", "--wave"],
      [/either node names or --all/, "start", "node-1", "--all"],
      [/omit node names/, "finish", "node-1"],
    ];
    for (const [message, ...args] of cases) {
      const { code, text } = run(...args);
      assert.match(text, message);
      assert.deepEqual([code, isUnchanged()], [2, true], args.join(" "));
    }
  });

  it("accepts options after the command", () => {
    assert.equal(run("start", "--wave", "3", "--all").code, 0);
    assert.ok(steps().includes("test node-1,node-2,node-3"));
  });

  it("finds the acceptance test from any working folder", () => {
    const copy = join(folder, "clone");
    mkdirSync(join(copy, "deploy"), { recursive: true });
    mkdirSync(join(copy, "dist"));
    copyFileSync(script, join(copy, "deploy/roll-out"));
    copyFileSync(join(folder, "e2e"), join(copy, "dist/kube-ipvs-e2e"));
    const { E2E: _, ...env } = usualEnvironment;
    const { status, stderr } = spawnSync("../clone/deploy/roll-out", ["start", "node-1"], {
      ...{ cwd: join(folder, "labels"), encoding: "utf8", env },
    });
    assert.equal(status, 0, stderr);
    assert.ok(steps().includes("test node-1"));
  });

  it("prints a help text of at most 80 columns", () => {
    const { code, text } = run("--help");
    assert.equal(code, 0);
    assert.ok(text.split("\n").every(({ length }) => length <= 80));
  });
});
