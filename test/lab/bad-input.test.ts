/** Tests the last output line or log line that a user reads after a mistake. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, describe, it } from "node:test";
import { assertNotLogged } from "../support/not-logged.ts";
import { Program } from "../support/program.ts";

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-bad-input-"));
after(() => rmSync(folder, { recursive: true }));

/** Writes a file and returns its path. */
function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

let program: Program | undefined;
afterEach(async () => {
  program?.kill("SIGKILL");
  await program?.ends();
});

function start(args: readonly string[]): Program {
  program = new Program(["--hostname-override=node-1", "--proxy-mode=ipvs", "-v=2", ...args]);
  return program;
}

/** A kubeconfig with a token, for a server address where nothing listens. */
const unreachable = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: s3cret}}]
`;

describe("the program does not start, and its last line gives the reason", () => {
  const empty = join(folder, "empty");
  mkdirSync(empty);
  const notThere = join(folder, "not-there");
  const broken = file("broken.conf", "apiVersion: v1\nclusters: [\n");
  const other = file("other.conf", "hello: 1\n");
  const cases: readonly {
    readonly name: string;
    readonly args: readonly string[];
    readonly want: string;
    /** Whether only the kernel can reject the value. */
    readonly isKernelAsked?: true;
  }[] = [
    {
      name: "for a scheduler that the kernel lacks",
      args: [`--manifests=${empty}`, "--ipvs-scheduler=roundest"],
      isKernelAsked: true,
      want: "Cannot use scheduler roundest for IPv4: ENOENT (Linux has no such scheduler; it has rr, wrr, lc, wlc, lblc, lblcr, dh, sh, sed, nq, fo, ovf, mh, twos)",
    },
    {
      name: "for a missing folder of manifests",
      args: [`--manifests=${notThere}`],
      want: `Cannot read manifest directory ${notThere}: ENOENT: no such file or directory; create it, or set --manifests to another directory`,
    },
    {
      name: "for a missing kubeconfig",
      args: [`--kubeconfig=${notThere}`],
      want: `Cannot read kubeconfig ${notThere}: ENOENT: no such file or directory; check --kubeconfig, or clientConnection.kubeconfig in the configuration`,
    },
    {
      name: "for a broken kubeconfig",
      args: [`--kubeconfig=${broken}`],
      want: `Cannot use kubeconfig ${broken}: line 3: Flow sequence in block collection must be sufficiently indented and end with a ]`,
    },
    {
      name: "for a file that is not a kubeconfig",
      args: [`--kubeconfig=${other}`],
      want: `Cannot use kubeconfig ${other}: it has no current context that names a cluster`,
    },
    {
      name: "without a cluster and without manifests",
      args: [],
      want: "Cannot find an API server: neither --kubeconfig nor --master is set, and the environment has no KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, which are set in pods; set --kubeconfig, or --manifests to run without a cluster",
    },
    {
      name: "for a configuration file of a different kind",
      args: [`--config=${other}`],
      want: "apiVersion: must be kubeproxy.config.k8s.io/v1alpha1; kind: must be KubeProxyConfiguration",
    },
  ];
  for (const { name, args, want, isKernelAsked } of cases) {
    it(name, async () => {
      const started = start(args);
      assert.deepEqual(await started.ends(), { code: 1, signal: null }, started.output);
      assert.equal(started.failures.join("; "), want);
      // Errors that need no kernel are reported before the node is changed.
      if (isKernelAsked !== true)
        assertNotLogged(started.output, "Set sysctl", "Set module parameter");
    });
  }
});

const manifests = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: http, port: 80}, {name: zero, port: 0}, {name: odd, port: 81, protocol: ICMP}]
---
apiVersion: v1
kind: Service
metadata: {name: nowhere, namespace: default}
spec: {clusterIP: 10.96.0.256, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: all}, {name: http, port: 8080}]
endpoints: [{addresses: [10.244.1.10]}]
`;

/** The texts of log lines with this message, without the log's quotes. */
function messages(output: string): readonly string[] {
  return [...output.matchAll(/ message="((?:[^"\\]|\\.)*)"/g)].map(([, text = ""]) =>
    text.replaceAll(/\\(.)/g, "$1"),
  );
}

describe("the program ignores invalid input and continues, and its log names the ignored input and its position", () => {
  it("for manifests: broken YAML, cluster IP, port, protocol, slice port", async () => {
    const place = join(folder, "manifests");
    mkdirSync(place);
    file("manifests/broken.yaml", "kind: Service\nmetadata:\n  name: [unfinished\n");
    file("manifests/web.yaml", manifests.trimStart());
    const started = start([`--manifests=${place}`]);
    await started.prints(/SyncProxyRules complete.* services=1 .*failures=0/);
    started.kill("SIGTERM");
    assert.deepEqual(await started.ends(), { code: 0, signal: null });
    assert.deepEqual(messages(started.output), [
      "Cannot use manifest broken.yaml:4:1: it cannot be read as YAML or JSON: Flow sequence in block collection must be sufficiently indented and end with a ]",
      "Cannot use spec.ports[1].port of Service default/web: 0 is not a port number from 1 to 65535 (web.yaml:1)",
      'Cannot use spec.ports[2].protocol of Service default/web: "ICMP" is not one of TCP, UDP, SCTP (web.yaml:1)',
      'Cannot use spec.clusterIPs[0] of Service default/nowhere: "10.96.0.256" is not an IP address (web.yaml:8)',
      "Cannot use Service default/nowhere: it has no valid cluster IP (web.yaml:8)",
      "Cannot use ports[0].port of EndpointSlice default/web-1: an absent value is not a port number; EndpointSlice ports without a number, which mean all ports, are not supported (web.yaml:13)",
    ]);
  });

  it("for an API server that cannot be reached, and it does not contain the token", async () => {
    const started = start([`--kubeconfig=${file("unreachable.conf", unreachable)}`]);
    await started.prints(
      /^W.* "Cannot read from the API server, retrying" resource="services" reason="ECONNREFUSED" err="Cannot reach API server https:\/\/127\.0\.0\.1:1: connect ECONNREFUSED 127\.0\.0\.1:1; nothing is listening there; check that the API server is running and that the address is correct" retryInMs=\d+ failures=1$/m,
    );
    started.kill("SIGTERM");
    assert.deepEqual(await started.ends(), { code: 0, signal: null });
    assertNotLogged(started.output, "SyncProxyRules complete");
    assert.doesNotMatch(started.output, /s3cret/);
  });
});
