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

interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values: readonly string[];
}
type Terms = readonly { readonly matchExpressions: readonly Requirement[] }[];
interface DaemonSet {
  readonly spec: {
    readonly updateStrategy: { readonly type: string };
    readonly template: {
      readonly spec: {
        readonly affinity?: {
          readonly nodeAffinity: {
            readonly requiredDuringSchedulingIgnoredDuringExecution: {
              readonly nodeSelectorTerms: Terms;
            };
          };
        };
      };
    };
  };
}

/** kube-proxy's DaemonSet as kubeadm creates it, or with a provider's node selector terms. */
function install(terms?: Terms): void {
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
const kubeIpvs = readManifests("replace-kube-proxy").find(
  ({ kind }) => kind === "DaemonSet",
) as unknown as DaemonSet;

function termsOf({ spec }: DaemonSet): Terms {
  const { affinity } = spec.template.spec;
  return (
    affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms ?? []
  );
}

/** Whether the scheduler places a pod on a node with this label and no other. */
function runsOn(daemonSet: DaemonSet, label: string | undefined): boolean {
  const terms = termsOf(daemonSet);
  const holds = ({ key, operator, values }: Requirement): boolean => {
    const value = key === "kube-ipvs.io/proxy" ? label : undefined;
    const isIn = value !== undefined && values.includes(value);
    return operator === "In" ? isIn : !isIn;
  };
  return terms.length === 0 || terms.some((term) => term.matchExpressions.every(holds));
}

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
    mkdirSync(join(folder, "labels"), { recursive: true });
    writeFileSync(join(folder, "labels", node), "");
  }
  rmSync(join(folder, "failing"), { force: true });
  rmSync(join(folder, "unreachable"), { force: true });
  mark("log");
  mkdirSync(join(folder, ".kube"), { recursive: true });
  mark(".kube/config");
  install();
});

const hasKubectl = spawnSync("/usr/bin/kubectl", ["version", "--client"]).status === 0;

describe("deploy/roll-out", { skip: hasKubectl ? false : "no kubectl here" }, () => {
  it("takes over one node at a time: first checks that kube-ipvs is waiting there, and finally tests the node", () => {
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
    const added = { key: "kube-ipvs.io/proxy", operator: "NotIn", values: ["kube-ipvs"] };
    assert.deepEqual(termsOf(proxy()), [
      { matchExpressions: [own, added] },
      { matchExpressions: [other, added] },
    ]);
    assert.deepEqual(proxy().spec.updateStrategy, { type: "OnDelete" });
  });

  it("leaves a proxy on each node at every step, including on added nodes", () => {
    run("start", "node-1");
    assert.deepEqual([runsOn(proxy(), undefined), runsOn(kubeIpvs, undefined)], [true, true]);
    for (const finish of [false, true]) {
      if (finish) assert.deepEqual([run("start", "--all").code, run("finish").code], [0, 0]);
      assert.deepEqual(
        [runsOn(proxy(), "kube-ipvs"), runsOn(kubeIpvs, "kube-ipvs")],
        [false, true],
      );
      assert.deepEqual(
        [runsOn(proxy(), "kube-proxy"), runsOn(kubeIpvs, "kube-proxy")],
        [true, false],
      );
    }
    assert.deepEqual([runsOn(proxy(), undefined), runsOn(kubeIpvs, undefined)], [false, true]);
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
    assert.match(text, /node-3: kube-proxy is ready\n.*kube-proxy is not ready on .*: node-2\n$/);
  });

  it("prints progress while it waits", () => {
    mark("silent-node-1");
    const { text } = runWith({ ...usualEnvironment, PATIENCE: "1" }, "start", "node-1");
    assert.match(text, /^node-1: kube-ipvs is not waiting for kube-proxy yet \(0 of 1 s\)\n/);
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
