/** etcd, API server, controller manager and scheduler, in the cluster's network namespace on this machine. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { auditPolicy } from "./audit.ts";
import { type Cluster, credential, eventually, kubectl, type LabCluster } from "./cluster.ts";
import { gateway, inNamespace, serviceRange } from "./network.ts";
import type { StoppableProgram } from "./programs.ts";

/** Listed in startup order. */
const programNames = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
] as const;
type ProgramName = (typeof programNames)[number];

export class ControlPlane {
  readonly #cluster: LabCluster;
  readonly #controllers: readonly string[];
  readonly #logs: string;
  readonly #running = new Map<ProgramName, StoppableProgram>();

  /** The controller manager runs only `controllers`, or its default controllers if the list is empty. */
  constructor(cluster: LabCluster, controllers: readonly string[] = []) {
    this.#cluster = cluster;
    this.#controllers = controllers;
    this.#logs = join(cluster.folder, "control-plane");
    mkdirSync(this.#logs, { recursive: true });
    writeFileSync(join(this.#logs, "audit-policy.json"), JSON.stringify(auditPolicy));
  }

  /**
   * Starts all programs, or the named ones, in order. Waits until the API server is ready before starting the next
   * program.
   */
  async start(...names: readonly ProgramName[]): Promise<void> {
    const wanted = programNames.filter((name) => names.length === 0 || names.includes(name));
    for (const name of wanted) {
      const log = join(this.#logs, `${name}.log`);
      const argv = inNamespace(...this.#commandOf(name));
      // On SIGTERM, the API server would wait a minute for its watches to end.
      const signal = name === "kube-apiserver" ? "SIGKILL" : "SIGTERM";
      this.#running.set(name, this.#cluster.programs.start(name, argv, { log, signal }));
      if (name === "kube-apiserver") await apiServerIsReady(this.#cluster);
    }
  }

  /** Stops the named programs, in reverse order. */
  async stop(...names: readonly ProgramName[]): Promise<void> {
    const unwanted = programNames.filter((name) => names.includes(name));
    for (const name of unwanted.toReversed()) await this.#running.get(name)?.stop();
  }

  #commandOf(name: ProgramName): readonly string[] {
    const { kubernetes, packages } = this.#cluster;
    switch (name) {
      case "etcd":
        return [join(packages, "usr/bin/etcd"), ...etcdArguments(etcdFolder(this.#cluster))];
      case "kube-apiserver":
        return [kubernetes.program(name), ...apiServerArguments(this.#cluster)];
      case "kube-controller-manager": {
        const args = controllerManagerArguments(this.#cluster, this.#controllers);
        return [kubernetes.program(name), ...args];
      }
      case "kube-scheduler":
        return [kubernetes.program(name), ...schedulerArguments(this.#cluster)];
    }
  }
}

/** etcd's data folder. */
export function etcdFolder({ memoryFolder }: Pick<LabCluster, "memoryFolder">): string {
  return join(memoryFolder, "etcd");
}

async function apiServerIsReady(cluster: Cluster): Promise<void> {
  await eventually(cluster, "the API server is ready", 300, async () => {
    return (await kubectl(cluster, "get", "--raw", "/readyz")) === "ok";
  });
}

function etcdArguments(folder: string): readonly string[] {
  const [client, peer] = ["http://127.0.0.1:2379", "http://127.0.0.1:2380"];
  return [
    ...["--name=etcd", `--data-dir=${folder}`, "--unsafe-no-fsync"],
    ...[`--listen-client-urls=${client}`, `--advertise-client-urls=${client}`],
    ...[`--listen-peer-urls=${peer}`, `--initial-advertise-peer-urls=${peer}`],
    `--initial-cluster=etcd=${peer}`,
  ];
}

function apiServerArguments(cluster: LabCluster): readonly string[] {
  const path = (file: string): string => credential(cluster, file);
  return [
    "--etcd-servers=http://127.0.0.1:2379",
    `--advertise-address=${gateway}`,
    "--secure-port=6443",
    `--cert-dir=${join(cluster.folder, "control-plane")}`,
    `--tls-cert-file=${path("apiserver.crt")}`,
    `--tls-private-key-file=${path("apiserver.key")}`,
    `--client-ca-file=${path("ca.crt")}`,
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--allow-privileged=true",
    `--kubelet-client-certificate=${path("admin.crt")}`,
    `--kubelet-client-key=${path("admin.key")}`,
    "--kubelet-preferred-address-types=InternalIP",
    `--requestheader-client-ca-file=${path("ca.crt")}`,
    "--requestheader-allowed-names=front-proxy",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-username-headers=X-Remote-User",
    `--proxy-client-cert-file=${path("front-proxy.crt")}`,
    `--proxy-client-key-file=${path("front-proxy.key")}`,
    "--enable-aggregator-routing=true",
    `--service-account-key-file=${path("service-accounts.pub")}`,
    `--service-account-signing-key-file=${path("service-accounts.key")}`,
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    `--service-cluster-ip-range=${serviceRange(cluster.network)}`,
    `--audit-policy-file=${join(cluster.folder, "control-plane/audit-policy.json")}`,
    `--audit-log-path=${auditLog(cluster)}`,
  ];
}

export function auditLog({ folder }: Pick<Cluster, "folder">): string {
  return join(folder, "control-plane/audit.log");
}

/** The nodes have fixed pod networks, which are in their CNI configuration. */
function controllerManagerArguments(
  cluster: LabCluster,
  controllers: readonly string[],
): readonly string[] {
  const path = (file: string): string => credential(cluster, file);
  const kubeconfig = path("controller-manager.conf");
  return [
    `--kubeconfig=${kubeconfig}`,
    `--authentication-kubeconfig=${kubeconfig}`,
    `--authorization-kubeconfig=${kubeconfig}`,
    "--leader-elect=false",
    `--cert-dir=${join(cluster.folder, "control-plane")}`,
    `--service-account-private-key-file=${path("service-accounts.key")}`,
    `--root-ca-file=${path("ca.crt")}`,
    `--cluster-signing-cert-file=${path("ca.crt")}`,
    `--cluster-signing-key-file=${path("ca.key")}`,
    "--use-service-account-credentials=true",
    "--allocate-node-cidrs=false",
    `--service-cluster-ip-range=${serviceRange(cluster.network)}`,
    "--kube-api-qps=100",
    "--kube-api-burst=200",
    ...(controllers.length === 0 ? [] : [`--controllers=${controllers.join(",")}`]),
  ];
}

function schedulerArguments(cluster: LabCluster): readonly string[] {
  const path = (file: string): string => credential(cluster, file);
  const kubeconfig = path("scheduler.conf");
  return [
    `--kubeconfig=${kubeconfig}`,
    `--authentication-kubeconfig=${kubeconfig}`,
    `--authorization-kubeconfig=${kubeconfig}`,
    "--leader-elect=false",
    `--cert-dir=${join(cluster.folder, "control-plane")}`,
  ];
}
