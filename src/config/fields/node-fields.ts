/** Settings for the API client, the node and local traffic detection (KubeProxyConfiguration v1alpha1). */
export const nodeFields = [
  {
    path: "clientConnection.kubeconfig",
    flag: "kubeconfig",
    help: "path of the kubeconfig; if neither this nor --master is set, the pod's service account is used",
  },
  {
    path: "clientConnection.qps",
    kind: "float",
    default: "5",
    flag: "kube-api-qps",
    help: "maximum API requests per second, including Events but not the second and later pages of a list; negative: no limit",
  },
  {
    path: "clientConnection.burst",
    kind: "integer",
    default: "10",
    min: 0,
    flag: "kube-api-burst",
    help: "maximum burst of API requests",
  },
  {
    path: "hostnameOverride",
    winsOverFile: true,
    help: "name of this node's Node object, if it differs from the hostname",
  },
  {
    path: "bindAddress",
    kind: "ip",
    default: "0.0.0.0",
    isLive: true,
    help: "primary IP of the node; if it is unspecified (0.0.0.0 or ::), the Node object's address is used",
  },
  {
    path: "clusterCIDR",
    kind: "comma-list",
    flag: "cluster-cidr",
    isLive: true,
    help: "cluster pod CIDRs, at most one per IP family",
  },
  {
    path: "detectLocalMode",
    default: "ClusterCIDR",
    words: ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"],
    isLive: true,
    help: "how to recognize traffic from local pods",
  },
  {
    path: "detectLocal.bridgeInterface",
    flag: "pod-bridge-interface",
    isLive: true,
    help: "the pods' bridge interface, for mode BridgeInterface",
  },
  {
    path: "detectLocal.interfaceNamePrefix",
    flag: "pod-interface-name-prefix",
    isLive: true,
    help: "prefix of pod interface names, for mode InterfaceNamePrefix",
  },
  {
    path: "nodePortAddresses",
    kind: "texts",
    flag: "nodeport-addresses",
    isLive: true,
    help: 'CIDRs of node addresses that serve node ports, or "primary" for the Node object\'s addresses; empty: all node addresses',
  },
] as const;
