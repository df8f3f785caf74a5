/** Installs kube-ipvs from its chart, as a DaemonSet with the real image, and the DNS Service with its endpoint. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { imageOf } from "../../toolchain/release/image.ts";
import { archiveOf, layoutOf } from "../../toolchain/release/layout.ts";
import { renderChart } from "../deploy/chart.ts";
import { type Cluster, eventually, kubectl, type LabCluster, tryKubectl } from "./cluster.ts";
import { apiServer, dnsAddress, gateway, podRange } from "./network.ts";

const project: string = join(import.meta.dirname, "../..");
const root: string = imageRoot(project);
/** Name in containerd of the image that `packImage` packs. */
export const imageName: string = `localhost/kube-ipvs:${version()}`;

/** Folder in which `make image` of a checkout assembles the image. */
export function imageRoot(checkout: string): string {
  return join(checkout, "build/image/root");
}
const rolloutSeconds = 300;

function version(): string {
  const { version } = JSON.parse(readFileSync(join(project, "package.json"), "utf8")) as {
    readonly version: string;
  };
  return version;
}

/**
 * Packs the image root that `make image` assembled, and returns the archive. Reuses an existing archive unless the root
 * is newer.
 */
export function packImage(folder: string): string {
  const archive = join(folder, "kube-ipvs.tar");
  const assembled = statSync(join(root, "usr/local/bin/kube-proxy")).mtimeMs;
  if (!existsSync(archive) || statSync(archive).mtimeMs <= assembled)
    packRoot(root, `kube-ipvs:${version()}`, archive);
  return archive;
}

/** Writes an archive of one image, with the name `localhost/NAME` in containerd. */
export function packRoot(root: string, name: string, archive: string): void {
  mkdirSync(dirname(archive), { recursive: true });
  const facts = {
    architecture: "amd64",
    version: version(),
    revision: "",
    epochSeconds: 0,
    projectUrl: "",
  } as const;
  const { manifest, blobs } = imageOf(root, facts);
  const work = mkdtempSync(`${archive}-`);
  writeFileSync(archive, archiveOf(layoutOf(manifest, blobs, name), work, facts.epochSeconds));
  rmSync(work, { recursive: true });
}

/** kube-ipvs removes this taint after its first sync, because `installKubeIpvs` sets `removeNotReadyTaint`. */
export const notReadyTaint = { key: "kube-ipvs/not-ready", effect: "NoSchedule" } as const;

/**
 * The pods have the label of kube-proxy's pods, because specs that restart the proxy look for it. `server` is the API
 * server's URL, and `values` are further values of the chart.
 */
export async function installKubeIpvs(
  cluster: LabCluster,
  mode: string,
  server: string = apiServer,
  values: object = {},
): Promise<void> {
  const { objects, error } = renderChart({
    ...values,
    image: { repository: "localhost/kube-ipvs" },
    apiServer: server,
    appLabel: "kube-proxy",
    removeNotReadyTaint: true,
    config: { mode, clusterCIDR: podRange(cluster.network), metricsBindAddress: "0.0.0.0:10249" },
  });
  if (objects === undefined) throw new Error(`cannot render the chart: ${error}`);
  await apply(cluster, "kube-ipvs", objects);
  await eventually(cluster, "kube-ipvs is ready on all nodes", rolloutSeconds, async () => {
    const path = "jsonpath={.status.numberReady}";
    const ready = await kubectl(
      cluster,
      "-n",
      "kube-system",
      "get",
      "daemonset",
      "kube-ipvs",
      "-o",
      path,
    );
    return ready === String(cluster.nodeNames.length);
  });
}

export function startDns(cluster: Cluster): Promise<void> {
  const ports = [
    { name: "dns", port: 53, protocol: "UDP" },
    { name: "dns-tcp", port: 53, protocol: "TCP" },
  ];
  const metadata = { name: "kube-dns", namespace: "kube-system" };
  return apply(cluster, "dns", [
    { apiVersion: "v1", kind: "Service", metadata, spec: { clusterIP: dnsAddress, ports } },
    {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { ...metadata, labels: { "kubernetes.io/service-name": "kube-dns" } },
      addressType: "IPv4",
      ports,
      endpoints: [{ addresses: [gateway], conditions: { ready: true } }],
    },
  ]);
}

export function apply(cluster: Cluster, name: string, items: readonly object[]): Promise<void> {
  return applyFile(cluster, name, items, []);
}

/** Writes the status of existing objects. */
export function applyStatus(
  cluster: Cluster,
  name: string,
  items: readonly object[],
): Promise<void> {
  return applyFile(cluster, name, items, ["--subresource=status"]);
}

async function applyFile(
  cluster: Cluster,
  name: string,
  items: readonly object[],
  flags: readonly string[],
): Promise<void> {
  const file = join(cluster.folder, `${name}.json`);
  writeFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  const { failure } = await tryKubectl(cluster, "apply", "--server-side", ...flags, "-f", file);
  if (failure !== "") throw new Error(`kubectl apply -f ${file}: ${failure}`);
}
