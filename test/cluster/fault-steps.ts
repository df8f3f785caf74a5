/** Control plane and node faults, and the operator's action that ends each. */
import { execFileSync } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { backendOn, canaryAnswers, pointCanary } from "./canary.ts";
import { type Cluster, credential, eventually, kubectl, type LabCluster } from "./cluster.ts";
import { type ControlPlane, etcdFolder } from "./control-plane.ts";
import { renewApiServerCertificate, writeAccountKeys } from "./credentials.ts";
import { inNamespace, ip, type NodeAddresses, otherApiServerAddress } from "./network.ts";
import type { StoppableProgram } from "./programs.ts";
import { installKubeIpvs } from "./proxy.ts";

export interface Faulty {
  readonly cluster: LabCluster;
  readonly controlPlane: ControlPlane;
  /** The kernels in node order. A reboot replaces one of them. */
  readonly kernels: StoppableProgram[];
  readonly startNode: (node: NodeAddresses) => StoppableProgram;
  readonly awaySeconds: number;
}

export interface Fault {
  readonly name: string;
  readonly title: (faulty: Faulty) => string;
  /** Whether the fault breaks the last node's connections. */
  readonly rebootsLastNode?: boolean;
  /** Runs before the connections are opened. */
  readonly prepare?: (faulty: Faulty) => Promise<void>;
  /**
   * Returns the backend that must answer without any further change. If undefined, the test changes the endpoint after
   * the fault.
   */
  readonly inject: (faulty: Faulty) => Promise<string | undefined>;
}

const rolloutLimit = "--timeout=10m";
const proxy = ["-n", "kube-system", "rollout"] as const;

/** Control plane faults. Connections through all nodes must stay open. */
export const controlPlaneFaults: readonly Fault[] = [
  {
    name: "away",
    title: ({ awaySeconds }) => `the API server is unavailable for ${awaySeconds} s`,
    inject: async ({ cluster, controlPlane, awaySeconds }) => {
      await controlPlane.stop("kube-apiserver");
      await sleep(awaySeconds * 1_000, undefined, { signal: cluster.signal });
      await controlPlane.start("kube-apiserver");
      return undefined;
    },
  },
  {
    name: "restore",
    title: () => "etcd is restored from an older snapshot",
    inject: restoreEtcd,
  },
  {
    name: "certificate",
    title: () => "the API server's certificate is renewed",
    inject: async ({ cluster, controlPlane }) => {
      renewApiServerCertificate(credential(cluster, ""));
      await controlPlane.stop("kube-apiserver");
      await controlPlane.start("kube-apiserver");
      return undefined;
    },
  },
  {
    name: "tokens",
    title: () => "the service account signing key is replaced, then the pods",
    inject: async ({ cluster, controlPlane }) => {
      writeAccountKeys(credential(cluster, ""));
      await controlPlane.stop("kube-apiserver", "kube-controller-manager");
      await controlPlane.start("kube-apiserver", "kube-controller-manager");
      await kubectl(cluster, ...proxy, "restart", "daemonset/kube-ipvs");
      await rolledOut(cluster);
      return undefined;
    },
  },
  {
    name: "address",
    title: () => "the API server's address changes, then the chart's apiServer",
    inject: async ({ cluster }) => {
      ip("address", "add", `${otherApiServerAddress}/24`, "dev", "bridge");
      await installKubeIpvs(cluster, "ipvs", `https://${otherApiServerAddress}:6443`);
      await rolledOut(cluster);
      await eventually(cluster, "all nodes use the new address", 300, () =>
        Promise.resolve(clientsOf(otherApiServerAddress).length === cluster.nodeNames.length),
      );
      return undefined;
    },
  },
];

/**
 * The canary's endpoint from the snapshot must be served again, although the API server's resourceVersions are older.
 */
async function restoreEtcd({ cluster, controlPlane }: Faulty): Promise<string> {
  const folder = etcdFolder(cluster);
  const snapshot = `${folder}-snapshot`;
  await pointCanary(cluster, backendOn(cluster, 0));
  await canaryAnswers(cluster, backendOn(cluster, 0));
  await controlPlane.stop("etcd", "kube-apiserver");
  cpSync(folder, snapshot, { recursive: true });
  await controlPlane.start("etcd", "kube-apiserver");
  await pointCanary(cluster, backendOn(cluster, 1));
  await canaryAnswers(cluster, backendOn(cluster, 1));
  const all = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] as const;
  await controlPlane.stop(...all);
  rmSync(folder, { recursive: true });
  cpSync(snapshot, folder, { recursive: true });
  await controlPlane.start();
  return backendOn(cluster, 0);
}

async function rolledOut(cluster: Cluster): Promise<void> {
  const done = await kubectl(cluster, ...proxy, "status", "daemonset/kube-ipvs", rolloutLimit);
  if (done === undefined) throw new Error("the DaemonSet was not rolled out");
}

/** Addresses that have a connection to the API server's port at `address`. */
function clientsOf(address: string): readonly string[] {
  const [program = "", ...args] = inNamespace(
    ...["ss", "-Htn", "state", "established", "src", `${address}:6443`],
  );
  const lines = execFileSync(program, args, { encoding: "utf8" }).split("\n");
  // The server's socket is dual-stack: "[::ffff:192.168.10.2]:6443 [::ffff:192.168.10.11]:57026".
  return [...new Set(lines.flatMap((line) => /([\d.]+)\]?:\d+\s*$/.exec(line)?.[1] ?? []))];
}
