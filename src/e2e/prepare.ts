/** Sets the scene: finds nodes and daemons, applies namespace, pods and Services, and waits for them. */
import type { V1Namespace, V1Node, V1Pod, V1Service } from "@kubernetes/client-node";
import { type ClusterApi, unlessMissing } from "./cluster/cluster-api.ts";
import type { ExecShell } from "./cluster/exec-shell.ts";
import { type Daemon, daemonOf, isPodReady } from "./daemon-pod.ts";
import {
  hintsSlice,
  namespaceObject,
  ownLabel,
  podObject,
  roles,
  type ServiceRole,
  serviceObject,
  serviceRoles,
} from "./objects.ts";
import type { E2eOptions } from "./options.ts";
import type { Patience } from "./patience.ts";
import { type Backend, type Scene, statusOf, type TestNode } from "./scene.ts";

export interface RunContext {
  readonly api: ClusterApi;
  readonly shell: ExecShell;
  /** For pods, whose image may have to come first, and for the end of a namespace. */
  readonly patience: Patience;
  /** For checks. */
  readonly checkPatience: Patience;
  readonly options: E2eOptions;
  /** One line for whoever waits. */
  readonly progress: (line: string) => void;
}

/** A pod of the test before it runs. */
interface PlannedPod {
  readonly name: string;
  readonly node: PlannedNode;
  readonly labels: Readonly<Record<string, string>>;
}

type PlannedNode = Pick<TestNode, "name" | "addresses" | "zone" | "daemon">;

const zoneLabel = "topology.kubernetes.io/zone";
/** A zone that no node is in. */
const nowhere = "kube-ipvs-e2e-elsewhere";

/** Rejects where the cluster cannot be tested; what was applied until then stays for {@link removeAll}. */
export async function prepare(context: RunContext): Promise<Scene> {
  const { api, patience, options, progress } = context;
  const listDaemons = (): Promise<readonly Daemon[]> => findDaemons(context);
  const daemons = await listDaemons();
  const missing = options.nodes.filter((name) => !daemons.some((one) => one.nodeName === name));
  if (missing.length > 0) throw new Error(`No kube-ipvs pod runs on node ${missing.join(", ")}`);
  const nodes = await chooseNodes(context, daemons);
  progress(
    `Testing ${daemons.length} daemons, with pods on ${nodes.map(({ name }) => name).join(", ")}`,
  );
  await makeNamespace(context);
  const planned = plannedPods(nodes);
  const image = options.image ?? nodes[0].daemon.image;
  const { namespace } = options;
  await Promise.all(
    planned.map(({ name, node, labels }) => {
      const pod = podObject({ name, namespace, nodeName: node.name, image, labels });
      return api.core.createNamespacedPod({ namespace, body: pod });
    }),
  );
  const services = await makeServices(context);
  progress(`Waiting for ${planned.length} pods in namespace ${namespace}`);
  const pods = await patience.until(`${planned.length} ready pods in ${namespace}`, async () => {
    const { items } = await api.core.listNamespacedPod({ namespace });
    return items.filter(isPodReady).length >= planned.length ? items : undefined;
  });
  const [first, ...rest] = nodes.map((node) => furnished(node, { planned, pods, namespace }));
  if (first === undefined) throw new Error("No node was chosen");
  await makeHints(context, [first, ...rest]);
  return {
    namespace,
    api,
    shell: context.shell,
    patience: context.checkPatience,
    daemons,
    nodes: [first, ...rest],
    services,
    firstStatus: await statusOf(context, first.daemon),
    listDaemons,
  };
}

async function findDaemons({ api, options }: RunContext): Promise<readonly Daemon[]> {
  const { daemonNamespace: namespace, daemonSelector: labelSelector } = options;
  const { items } = await api.core.listNamespacedPod({ namespace, labelSelector });
  // One that ends is replaced.
  return items
    .filter(({ metadata }) => metadata?.deletionTimestamp === undefined)
    .flatMap((pod) => daemonOf(pod) ?? [])
    .filter(({ nodeName }) => options.nodes.length === 0 || options.nodes.includes(nodeName))
    .toSorted((one, other) => (one.nodeName < other.nodeName ? -1 : 1));
}

async function chooseNodes(
  { api, options }: RunContext,
  daemons: readonly Daemon[],
): Promise<readonly [PlannedNode, ...PlannedNode[]]> {
  const { items } = await api.core.listNode();
  const nodes = new Map(items.map((node) => [node.metadata?.name, node]));
  const [first, ...rest] = daemons
    .filter(({ isReady }) => isReady)
    .flatMap((daemon) => {
      const node = nodes.get(daemon.nodeName);
      return node === undefined ? [] : [plannedNode(node, daemon)];
    })
    .slice(0, options.nodeCount);
  if (first !== undefined) return [first, ...rest];
  const where = `namespace ${options.daemonNamespace}, selector ${options.daemonSelector}`;
  throw new Error(
    `No ready pod of kube-ipvs among ${daemons.length} (${where}); see --daemon-namespace and --daemon-selector`,
  );
}

function plannedNode({ metadata, status }: V1Node, daemon: Daemon): PlannedNode {
  const zone = metadata?.labels?.[zoneLabel] ?? "";
  return {
    name: daemon.nodeName,
    addresses: (status?.addresses ?? [])
      .filter(({ type }) => type === "InternalIP")
      .map(({ address }) => address),
    ...(zone === "" ? {} : { zone }),
    daemon,
  };
}

/** Two backends on the first node, one on each other; a client on each. */
function plannedPods(nodes: readonly PlannedNode[]): readonly PlannedPod[] {
  const [first] = nodes;
  const places = first === undefined ? [] : [first, first, ...nodes.slice(1)];
  const backends = places.map((node, index): PlannedPod => {
    const labels = { ...roles.backend, ...roles.draining, ...(node === first ? roles.first : {}) };
    return { name: `backend-${index}`, node, labels };
  });
  const clients = nodes.map((node, index): PlannedPod => {
    return { name: `client-${index}`, node, labels: roles.client };
  });
  return [...backends, ...clients];
}

function furnished(
  node: PlannedNode,
  context: {
    readonly planned: readonly PlannedPod[];
    readonly pods: readonly V1Pod[];
    readonly namespace: string;
  },
): TestNode {
  const { planned, pods, namespace } = context;
  const own = planned.filter((one) => one.node === node);
  const isClient = ({ labels }: PlannedPod): boolean => labels[ownLabel] === "client";
  const client = own.find(isClient)?.name ?? "";
  const backends = own
    .filter((one) => !isClient(one))
    .map(({ name }): Backend => {
      const pod = pods.find(({ metadata }) => metadata?.name === name);
      const addresses = (pod?.status?.podIPs ?? []).map(({ ip }) => ip);
      return { name, place: { namespace, pod: name }, nodeName: node.name, addresses };
    });
  return { ...node, client: { namespace, pod: client }, backends };
}

/** Uses an empty namespace that deploy/kustomize/e2e applied with the rights in it. One that an earlier run left is removed first. */
async function makeNamespace(context: RunContext): Promise<void> {
  const { api, options, progress } = context;
  const { namespace } = options;
  const found = await unlessMissing(api.core.readNamespace({ name: namespace }));
  if (found !== undefined) {
    if (isOwn(found) && (await isUnused(api, found))) return;
    progress(`Removing namespace ${namespace}, which an earlier run left`);
    await removeAll(context);
  }
  await api.core.createNamespace({ body: namespaceObject(namespace) });
}

function isOwn({ metadata }: V1Namespace): boolean {
  return metadata?.labels?.[ownLabel] === "true";
}

/** Whether no run has used it. A run creates its pods before anything else. */
async function isUnused({ core }: ClusterApi, { metadata }: V1Namespace): Promise<boolean> {
  if (metadata?.deletionTimestamp !== undefined) return false;
  const { items } = await core.listNamespacedPod({ namespace: metadata?.name ?? "" });
  return items.length === 0;
}

async function makeServices({
  api,
  options: { namespace },
}: RunContext): Promise<ReadonlyMap<ServiceRole, V1Service>> {
  const made = serviceRoles.map(async (role) => {
    const body = serviceObject(namespace, role);
    return [role, await api.core.createNamespacedService({ namespace, body })] as const;
  });
  return new Map(await Promise.all(made));
}

async function makeHints(
  { api, options: { namespace } }: RunContext,
  nodes: readonly TestNode[],
): Promise<void> {
  const backends = nodes.flatMap(({ backends: own }) => own);
  const endpoints = backends.flatMap(({ addresses: [address], nodeName }, index) => {
    const zone = index === 0 ? (nodes[0]?.zone ?? nowhere) : nowhere;
    return address === undefined ? [] : [{ address, nodeName, zone }];
  });
  const body = hintsSlice(namespace, endpoints);
  await api.discovery.createNamespacedEndpointSlice({ namespace, body });
}

/** Removes the namespace with all in it, and waits until it is gone. One that is not ours stays. */
export async function removeAll({
  api,
  patience,
  options: { namespace },
}: Pick<RunContext, "api" | "patience" | "options">): Promise<void> {
  const find = (): Promise<V1Namespace | undefined> =>
    unlessMissing(api.core.readNamespace({ name: namespace }));
  const found = await find();
  if (found === undefined) return;
  if (!isOwn(found)) {
    throw new Error(
      `Namespace ${namespace} is not of kube-ipvs-e2e; choose another by --namespace`,
    );
  }
  await unlessMissing(api.core.deleteNamespace({ name: namespace }));
  await patience.until(`the end of namespace ${namespace}`, async () =>
    (await find()) === undefined ? true : undefined,
  );
}
