/** etcd, API server, controller manager and scheduler, in the cluster's namespace of this machine. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { auditPolicy } from "./audit.ts";
import { type Cluster, credential, eventually, kubectl } from "./cluster.ts";
import { gateway, inNamespace, serviceNetwork } from "./network.ts";
import type { StoppableProgram } from "./programs.ts";

/**
 * Starts the programs in order. The others need the API server, so this waits until it is ready. Returns the controller
 * manager, which runs only the named controllers if any are named.
 */
export async function startControlPlane(
  cluster: Cluster,
  controllers: readonly string[] = [],
): Promise<StoppableProgram> {
  const { programs, kubernetes, packages } = cluster;
  const logs = join(cluster.folder, "control-plane");
  mkdirSync(logs, { recursive: true });
  writeFileSync(join(logs, "audit-policy.json"), JSON.stringify(auditPolicy));
  const start = (name: string, program: string, args: readonly string[]): StoppableProgram =>
    programs.start(name, inNamespace(program, ...args), { log: join(logs, `${name}.log`) });

  start("etcd", join(packages, "usr/bin/etcd"), etcdArguments(join(cluster.memoryFolder, "etcd")));
  start("kube-apiserver", kubernetes.program("kube-apiserver"), apiServerArguments(cluster));
  await eventually(cluster, "the API server is ready", 300, async () => {
    return (await kubectl(cluster, "get", "--raw", "/readyz")) === "ok";
  });
  const manager = start(
    "kube-controller-manager",
    kubernetes.program("kube-controller-manager"),
    controllerManagerArguments(cluster, controllers),
  );
  start("kube-scheduler", kubernetes.program("kube-scheduler"), schedulerArguments(cluster));
  return manager;
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

function apiServerArguments(cluster: Cluster): readonly string[] {
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
    `--service-cluster-ip-range=${serviceNetwork}`,
    `--audit-policy-file=${join(cluster.folder, "control-plane/audit-policy.json")}`,
    `--audit-log-path=${auditLog(cluster)}`,
  ];
}

export function auditLog({ folder }: Pick<Cluster, "folder">): string {
  return join(folder, "control-plane/audit.log");
}

/** The nodes have fixed pod networks, which their CNI configuration names. */
function controllerManagerArguments(
  cluster: Cluster,
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
    `--service-cluster-ip-range=${serviceNetwork}`,
    "--kube-api-qps=100",
    "--kube-api-burst=200",
    ...(controllers.length === 0 ? [] : [`--controllers=${controllers.join(",")}`]),
  ];
}

function schedulerArguments(cluster: Cluster): readonly string[] {
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
