/** Another proxy, given as a command, such as another kube-proxy release. */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

export type PeerMode = "ipvs" | "iptables";

const versionTimeoutMs = 10_000;

export interface PeerOptions {
  /** URL of the API server: `http://10.200.0.1:6443`. */
  readonly server: string;
  readonly mode: PeerMode;
  /** Folder for the configuration and kubeconfig. */
  readonly folder: string;
}

/** Writes a KubeProxyConfiguration file and replaces `{config}` in `template` with its path. */
export function peerArguments(
  template: string,
  { server, mode, folder }: PeerOptions,
): readonly string[] {
  mkdirSync(folder, { recursive: true });
  const [kubeconfig, config] = [join(folder, "kubeconfig"), join(folder, "config.yaml")];
  writeFileSync(kubeconfig, kubeconfigText(server));
  writeFileSync(config, configText(kubeconfig, mode));
  return wordsOf(template).map((word) => word.replaceAll("{config}", config));
}

/** For example `kube-proxy (Kubernetes v1.36.2)`: the program without its folder, and its `--version` output. */
export function peerTitle(template: string): string {
  const [program = ""] = wordsOf(template);
  const { status, stdout } = spawnSync(program, ["--version"], {
    encoding: "utf8",
    timeout: versionTimeoutMs,
    killSignal: "SIGKILL",
  });
  const version = status === 0 ? (stdout.trim().split("\n")[0] ?? "") : "";
  return version === "" ? basename(program) : `${basename(program)} (${version})`;
}

function wordsOf(template: string): readonly string[] {
  return template.trim().split(/\s+/);
}

function kubeconfigText(server: string): string {
  return `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: ${JSON.stringify(server)}}}]
users: [{name: test, user: {}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`;
}

/** Not zero, which would mean the default in iptables mode. */
const minSyncPeriods: Readonly<Record<PeerMode, string>> = { ipvs: "0s", iptables: "1ms" };

/** The test API server supports only JSON, but kube-proxy requests protobuf by default. */
function configText(kubeconfig: string, mode: PeerMode): string {
  return `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${mode}
hostnameOverride: node-1
clusterCIDR: 10.244.0.0/16
clientConnection: {kubeconfig: ${JSON.stringify(kubeconfig)}, contentType: application/json}
${mode}: {minSyncPeriod: ${minSyncPeriods[mode]}, syncPeriod: 1h}
conntrack: {maxPerCore: 0, min: 0}
`;
}
