/** A Service with a backend and a client on each node, and connections through it. */
import { join } from "node:path";
import { podObject } from "../../src/e2e/objects.ts";
import { backendPort } from "../../src/e2e/pod/conversation.ts";
import { type Cluster, eventually, kubectl, kubectlArguments } from "./cluster.ts";
import { Holder } from "./holder.ts";
import { imageName } from "./proxy.ts";

const nodePort = 30_080;
const clusterIp = "10.96.80.80";
export const shop = "shop";

export function shopObjects({ nodeNames }: Cluster): readonly object[] {
  const pod = (name: string, nodeName: string, app: string): object =>
    podObject({
      ...{ name, nodeName, namespace: shop, labels: { app } },
      image: imageName,
    });
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: shop } },
    ...nodeNames.flatMap((name) => [
      pod(`backend-${name}`, name, "backend"),
      pod(`client-${name}`, name, "client"),
    ]),
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "web", namespace: shop },
      spec: {
        type: "NodePort",
        clusterIP: clusterIp,
        selector: { app: "backend" },
        ports: [{ port: 80, targetPort: backendPort, nodePort }],
      },
    },
  ];
}

/** Waits until the pods are ready and the node port answers on each node. */
export async function shopIsOpen(cluster: Cluster): Promise<void> {
  await eventually(cluster, "the shop's pods are ready", 600, async () => {
    return (await readyPods(cluster, shop, "app")).length === 2 * cluster.nodeNames.length;
  });
  await eventually(cluster, "the shop answers at all nodes", 120, () =>
    openConnections(cluster, 1, 0)
      .then(closeConnections)
      .then(
        ({ broken }) => broken === 0,
        () => false,
      ),
  );
}

/** Returns `NODE IMAGE` for each ready pod that the selector matches, sorted. */
export async function readyPods(
  cluster: Cluster,
  namespace: string,
  selector: string,
): Promise<readonly string[]> {
  const condition = '{.status.conditions[?(@.type=="Ready")].status}';
  const line = `${condition}{" "}{.spec.nodeName}{" "}{.spec.containers[0].image}{"\\n"}`;
  const path = `jsonpath={range .items[*]}${line}{end}`;
  const args = ["-n", namespace, "get", "pods", "-l", selector, "-o", path];
  const lines = ((await kubectl(cluster, ...args)) ?? "").split("\n");
  const ready = lines.filter((one) => one.startsWith("True "));
  return ready.map((one) => one.slice("True ".length)).toSorted();
}

/** The nodes' addresses that kubelets report, in the order of the nodes' names. */
export async function nodeAddresses(cluster: Cluster): Promise<readonly string[]> {
  const address = '{.status.addresses[?(@.type=="InternalIP")].address}';
  const path = `jsonpath={range .items[*]}${address}{"\\n"}{end}`;
  const listed = await kubectl(cluster, "get", "nodes", "-o", path);
  return (listed ?? "").trim().split("\n");
}

/** Opens a connection from the cluster's network to each `ADDRESS:PORT`. */
export function holdConnections(
  { inNetwork, signal }: Cluster,
  targets: readonly string[],
): Promise<Holder> {
  const holder = join(import.meta.dirname, "hold.ts");
  return Holder.open(inNetwork(process.execPath, holder, ...targets), targets.length, signal);
}

/** Opens `perNode` connections to the Service's port of each address. */
export function holdNodePorts(
  cluster: Cluster,
  addresses: readonly string[],
  perNode: number,
): Promise<Holder> {
  return holdConnections(
    cluster,
    addresses.flatMap((address) => Array.from({ length: perNode }, () => `${address}:${nodePort}`)),
  );
}

/** Opens `perNode` connections to each node port, and `perPod` from each client pod to the cluster IP. */
export async function openConnections(
  cluster: Cluster,
  perNode: number,
  perPod: number,
): Promise<readonly Holder[]> {
  const holders = [await holdNodePorts(cluster, await nodeAddresses(cluster), perNode)];
  for (const name of cluster.nodeNames) {
    const command = ["kube-ipvs-e2e", "hold", clusterIp, "80"];
    const exec = ["-n", shop, "exec", "-i", `client-${name}`, "--", ...command];
    const argv = cluster.inNetwork(...kubectlArguments(cluster, ...exec));
    for (let index = 0; index < perPod; index += 1)
      holders.push(await Holder.open(argv, 1, cluster.signal));
  }
  return holders;
}

/** Closes connections. Returns how many there were, and how many had ended or no longer transferred data. */
export async function closeConnections(
  holders: readonly Holder[],
): Promise<{ readonly count: number; readonly broken: number }> {
  const results = (await Promise.all(holders.map((holder) => holder.end()))).flat();
  const broken = results.filter(({ ending }) => ending !== "open");
  for (const one of broken) console.log(`broken: ${JSON.stringify(one)}`);
  return { count: results.length, broken: broken.length };
}
