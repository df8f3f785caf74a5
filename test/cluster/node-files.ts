/**
 * The files that a node reads: the configuration of kubelet, containerd, CNI and kube-proxy, and environment variables.
 */
import {
  dnsAddress,
  gateway,
  gateway6,
  type Network,
  type NodeAddresses,
  podRange,
} from "./network.ts";

export interface NodeSoftware {
  readonly network: Network;
  readonly folder: string;
  readonly project: string;
  readonly packages: string;
  readonly modules: string;
  readonly kubelet: string;
  /** Undefined if the proxy runs as a DaemonSet. */
  readonly kubeProxy: string | undefined;
  readonly mode: string;
  /** The taints with which kubelet registers the node. */
  readonly taints?: readonly { readonly key: string; readonly effect: string }[];
  readonly images: readonly string[];
  readonly pauseImage: string;
  readonly credential: (file: string) => string;
}

/** Contents by file name. */
export function nodeFiles(
  node: NodeAddresses,
  software: NodeSoftware,
): Readonly<Record<string, string>> {
  return {
    environment: environment(node, software),
    "kubelet.json": JSON.stringify(kubeletConfiguration(node, software), undefined, 1),
    "kube-proxy.json": JSON.stringify(kubeProxyConfiguration(node, software), undefined, 1),
    "10-bridge.conflist": JSON.stringify(cniConfiguration(node, software), undefined, 1),
    "containerd.toml": containerdConfiguration(software.pauseImage),
  };
}

function environment(node: NodeAddresses, software: NodeSoftware): string {
  const { nodes, families } = software.network;
  const routes = nodes
    .filter(({ name }) => name !== node.name)
    .flatMap(({ pods, address, pods6, address6 }) => [
      `${pods},${address}`,
      `${pods6},${address6}`,
    ]);
  const variables = {
    PROJECT: software.project,
    PACKAGES: software.packages,
    MODULES: software.modules,
    NODE_NAME: node.name,
    NODE_ADDRESS: node.address,
    NODE_ADDRESS6: node.address6,
    NODE_IPS: families.map((one) => (one === "IPv4" ? node.address : node.address6)).join(),
    ZONE: node.zone,
    GATEWAY: gateway,
    GATEWAY6: gateway6,
    ROUTES: routes.join(" "),
    IMAGES: software.images.join(" "),
    KUBELET: software.kubelet,
    KUBECONFIG_FILE: software.credential(`${node.name}.conf`),
    KUBE_PROXY: software.kubeProxy ?? "",
  };
  const lines = Object.entries(variables).map(([name, value]) => `export ${name}='${value}'\n`);
  return lines.join("");
}

/** No node limits are enforced, because user-mode Linux has no cpuset controller and a node's disk is in memory. */
function kubeletConfiguration(
  { name }: NodeAddresses,
  { credential, taints = [] }: NodeSoftware,
): object {
  const containerd = "unix:///run/containerd/containerd.sock";
  return {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: credential("ca.crt") },
    },
    authorization: { mode: "Webhook" },
    tlsCertFile: credential(`${name}.crt`),
    tlsPrivateKeyFile: credential(`${name}.key`),
    containerRuntimeEndpoint: containerd,
    imageServiceEndpoint: containerd,
    clusterDNS: [dnsAddress],
    clusterDomain: "cluster.local",
    resolvConf: "/etc/resolv.conf",
    cgroupDriver: "cgroupfs",
    failSwapOn: false,
    registerWithTaints: taints,
    enforceNodeAllocatable: [],
    // Disabled because one of the specs sets a limit on ephemeral storage.
    localStorageCapacityIsolation: true,
    evictionHard: {
      "memory.available": "0%",
      "nodefs.available": "0%",
      "nodefs.inodesFree": "0%",
      "imagefs.available": "0%",
    },
    imageGCHighThresholdPercent: 100,
    imageMinimumGCAge: "1000h",
    runtimeRequestTimeout: "10m",
    serializeImagePulls: false,
    registryPullQPS: 0,
    eventRecordQPS: 0,
    syncFrequency: "10s",
  };
}

function kubeProxyConfiguration(
  node: NodeAddresses,
  { credential, mode, network }: NodeSoftware,
): object {
  return {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode,
    hostnameOverride: node.name,
    clientConnection: { kubeconfig: credential("kube-proxy.conf") },
    clusterCIDR: podRange(network),
    metricsBindAddress: "0.0.0.0:10249",
    healthzBindAddress: "0.0.0.0:10256",
    // Leaves the conntrack table's limits unchanged.
    conntrack: { maxPerCore: 0 },
  };
}

function cniConfiguration({ pods, pods6 }: NodeAddresses, { network }: NodeSoftware): object {
  const subnets = network.families.map((family) =>
    family === "IPv4" ? { subnet: pods, dst: "0.0.0.0/0" } : { subnet: pods6, dst: "::/0" },
  );
  const bridge = {
    type: "bridge",
    bridge: "cni0",
    isGateway: true,
    ipMasq: false,
    hairpinMode: true,
    ipam: {
      type: "host-local",
      ranges: subnets.map(({ subnet }) => [{ subnet }]),
      routes: subnets.map(({ dst }) => ({ dst })),
    },
  };
  const portmap = {
    type: "portmap",
    capabilities: { portMappings: true },
    snat: true,
    backend: "iptables",
  };
  return { cniVersion: "1.0.0", name: "bridge", plugins: [bridge, portmap] };
}

function containerdConfiguration(pauseImage: string): string {
  const images = "plugins.'io.containerd.cri.v1.images'";
  const runtime = "plugins.'io.containerd.cri.v1.runtime'";
  return `version = 3
[${images}]
  snapshotter = 'overlayfs'
[${images}.pinned_images]
  sandbox = '${pauseImage}'
[${runtime}]
  disable_apparmor = true
  restrict_oom_score_adj = false
[${runtime}.cni]
  bin_dirs = ['/usr/lib/cni']
  conf_dir = '/etc/cni/net.d'
[${runtime}.containerd]
  default_runtime_name = 'crun'
[${runtime}.containerd.runtimes.crun]
  runtime_type = 'io.containerd.runc.v2'
[${runtime}.containerd.runtimes.crun.options]
  BinaryName = '/usr/bin/crun'
  SystemdCgroup = false
`;
}
