/** kube-proxy as kubeadm installs it: account, ConfigMap and DaemonSet, with an image made from the operator's program. */
import { copyFileSync, cpSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { apiServer, podNetworks } from "./network.ts";
import { imageRoot, packRoot } from "./proxy.ts";
import { project } from "./with-cluster.ts";

const namespace = "kube-system";
const name = "kube-proxy";
/** The name in containerd of the image that `packKubeProxy` packs. */
const kubeProxyImage = "localhost/kube-proxy:lab";

/**
 * Writes an archive of a kube-proxy image. Our own image's root has the tools that kube-proxy runs, except ipset, which
 * comes from this machine. `iptables` is the variant that the lab's nodes use.
 */
export function packKubeProxy(folder: string, program: string): string {
  const root = join(folder, "kube-proxy-root");
  rmSync(root, { recursive: true, force: true });
  cpSync(imageRoot(project), root, { recursive: true, verbatimSymlinks: true });
  rmSync(join(root, "usr/local"), { recursive: true });
  mkdirSync(join(root, "usr/local/lib/kube-ipvs/node"), { recursive: true });
  mkdirSync(join(root, "usr/local/bin"));
  copyFileSync(program, join(root, "usr/local/bin/kube-proxy"));
  const libraries = ["libipset.so.13", "libmnl.so.0"].map(
    (file) => `usr/lib/x86_64-linux-gnu/${file}`,
  );
  for (const file of ["usr/sbin/ipset", ...libraries])
    copyFileSync(join("/", file), join(root, file));
  for (const family of ["iptables", "ip6tables"]) {
    for (const tool of [family, `${family}-save`, `${family}-restore`]) {
      rmSync(join(root, "usr/sbin", tool));
      symlinkSync("xtables-legacy-multi", join(root, "usr/sbin", tool));
    }
  }
  const archive = join(folder, "kube-proxy.tar");
  packRoot(root, basename(kubeProxyImage), archive);
  rmSync(root, { recursive: true });
  return archive;
}

/** The objects that `kubeadm init` creates for kube-proxy, with `mode: ipvs`. */
export function kubeProxyObjects(): readonly object[] {
  const metadata = { name, namespace };
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: "kubeadm:node-proxier" },
      roleRef: {
        apiGroup: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        name: "system:node-proxier",
      },
      subjects: [{ kind: "ServiceAccount", ...metadata }],
    },
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { ...metadata, labels: { app: name } },
      data: { "config.conf": configuration, "kubeconfig.conf": kubeconfig },
    },
    daemonSet(),
  ];
}

/** The configuration as kubeadm writes it, sorted by field name. */
const configuration = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: ${podNetworks.IPv4}
configSyncPeriod: 0s
conntrack:
  maxPerCore: 0
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  verbosity: 0
metricsBindAddress: ""
mode: ipvs
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
`;

const account = "/var/run/secrets/kubernetes.io/serviceaccount";
const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: ${account}/ca.crt
    server: ${apiServer}
  name: default
contexts:
- context:
    cluster: default
    namespace: default
    user: default
  name: default
current-context: default
users:
- name: default
  user:
    tokenFile: ${account}/token
`;

function daemonSet(): object {
  const labels = { "k8s-app": name };
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name, namespace, labels },
    spec: {
      selector: { matchLabels: labels },
      updateStrategy: { type: "RollingUpdate" },
      template: {
        metadata: { labels },
        spec: {
          hostNetwork: true,
          nodeSelector: { "kubernetes.io/os": "linux" },
          priorityClassName: "system-node-critical",
          serviceAccountName: name,
          tolerations: [{ operator: "Exists" }],
          containers: [
            {
              name,
              image: kubeProxyImage,
              imagePullPolicy: "IfNotPresent",
              command: [
                "/usr/local/bin/kube-proxy",
                "--config=/var/lib/kube-proxy/config.conf",
                "--hostname-override=$(NODE_NAME)",
              ],
              env: [{ name: "NODE_NAME", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } }],
              securityContext: { privileged: true },
              volumeMounts: [
                { name, mountPath: "/var/lib/kube-proxy" },
                { name: "xtables-lock", mountPath: "/run/xtables.lock" },
                { name: "lib-modules", mountPath: "/lib/modules", readOnly: true },
              ],
            },
          ],
          volumes: [
            { name, configMap: { name } },
            { name: "xtables-lock", hostPath: { path: "/run/xtables.lock", type: "FileOrCreate" } },
            { name: "lib-modules", hostPath: { path: "/lib/modules" } },
          ],
        },
      },
    },
  };
}
