/** Prepares a test: finds nodes and daemons, creates a namespace, pods and Services, and waits until they are ready. */
import type { V1Namespace, V1Node, V1Pod, V1Service } from "@kubernetes/client-node";
import { counted } from "../base/counted.ts";
import { type ClusterApi, unlessMissing } from "./cluster/cluster-api.ts";
import type { ExecShell } from "./cluster/exec-shell.ts";
import { type Daemon, daemonOf, isPodReady } from "./daemon-pod.ts";
import {
  hintsSlice,
  namespaceObject,
  ownLabel,
  podObject,
  podTemplates,
  type ServiceRole,
  serviceObject,
  serviceRoles,
} from "./objects.ts";
import type { E2eOptions } from "./options.ts";
import { Patience, type Waiting } from "./patience.ts";
import { answerOf, daemonOn, type Scene, type TestNode } from "./scene.ts";
import { Vantage } from "./vantage.ts";

/** If `signal` interrupts the run, the run removes the objects that it created. */
export interface RunContext extends Waiting {
  readonly api: ClusterApi;
  readonly shell: ExecShell;
  readonly options: E2eOptions;
  /** Reports progress in one line. */
  readonly progress: (line: string) => void;
}

/** Time limit for pods to become ready, including image pulls, and for namespace deletion. */
const preparationMs = 300_000;
const zoneLabel = "topology.kubernetes.io/zone";
/** A zone without nodes. */
const nowhere = "kube-ipvs-e2e-elsewhere";

/** Prepares the test. If the cluster cannot be tested, rejects; {@link removeAll} removes what was created until then. */
export async function prepare(context: RunContext): Promise<Scene> {
  const { api, shell, options, progress } = context;
  const { namespace } = options;
  const listDaemons = (): Promise<readonly Daemon[]> => findDaemons(context);
  const daemons = await listDaemons();
  const missing = options.nodes.filter((name) => !daemons.some((one) => one.nodeName === name));
  if (missing.length > 0) throw new Error(`No kube-ipvs pod runs on node ${missing.join(", ")}`);
  const chosen = await chooseNodes(context, daemons);
  const names = chosen.map(nameOf);
  progress(`Testing ${counted(daemons.length, "daemon")}, with pods on ${names.join(", ")}`);
  await makeNamespace(context);
  const firstDaemon = await daemonOn({ listDaemons }, nameOf(chosen[0]));
  const image = options.image ?? firstDaemon.image;
  const templates = podTemplates(names);
  await Promise.all(
    templates.map((template) => {
      const body = podObject({ ...template, namespace, image });
      return api.core.createNamespacedPod({ namespace, body });
    }),
  );
  const services = await makeServices(context);
  const pods = await readyPods(context, templates.length);
  const testNode = (node: V1Node): TestNode => nodeWithPods({ shell, listDaemons }, node, pods);
  const [first, ...rest] = chosen;
  const nodes = [testNode(first), ...rest.map(testNode)] as const;
  await makeHints(context, nodes);
  return {
    namespace,
    api,
    shell,
    patience: new Patience(context, options.patienceMs),
    nodes,
    services,
    firstStatus: await answerOf(shell, firstDaemon, "status"),
    listDaemons,
  };
}

async function findDaemons({ api, options }: RunContext): Promise<readonly Daemon[]> {
  const { daemonNamespace: namespace, daemonSelector: labelSelector } = options;
  const { items } = await api.core.listNamespacedPod({ namespace, labelSelector });
  // Terminating pods are ignored because they will be replaced.
  return items
    .filter(({ metadata }) => metadata?.deletionTimestamp === undefined)
    .flatMap((pod) => daemonOf(pod) ?? [])
    .filter(({ nodeName }) => options.nodes.length === 0 || options.nodes.includes(nodeName))
    .toSorted((one, other) => (one.nodeName < other.nodeName ? -1 : 1));
}

async function chooseNodes(
  { api, options }: RunContext,
  daemons: readonly Daemon[],
): Promise<readonly [V1Node, ...V1Node[]]> {
  const { items } = await api.core.listNode();
  const [first, ...rest] = daemons
    .filter(({ isReady }) => isReady)
    .flatMap(({ nodeName }) => items.find((node) => nameOf(node) === nodeName) ?? [])
    .slice(0, options.nodeCount);
  if (first !== undefined) return [first, ...rest];
  const where = `namespace ${options.daemonNamespace}, selector ${options.daemonSelector}`;
  throw new Error(
    `None of the ${daemons.length} kube-ipvs pods found is ready (${where}); check --daemon-namespace and --daemon-selector`,
  );
}

function nameOf({ metadata }: V1Node | V1Pod): string {
  return metadata?.name ?? "";
}

async function readyPods(context: RunContext, count: number): Promise<readonly V1Pod[]> {
  const { api, options, progress } = context;
  const { namespace } = options;
  progress(`Waiting for ${count} pods in namespace ${namespace}`);
  const patience = new Patience(context, preparationMs);
  return await patience.until(`${count} ready pods in ${namespace}`, async () => {
    const { items } = await api.core.listNamespacedPod({ namespace });
    return items.filter(isPodReady).length >= count ? items : undefined;
  });
}

function nodeWithPods(
  { shell, listDaemons }: Pick<Scene, "shell" | "listDaemons">,
  node: V1Node,
  pods: readonly V1Pod[],
): TestNode {
  const name = nameOf(node);
  const zone = node.metadata?.labels?.[zoneLabel] ?? "";
  const own = Map.groupBy(
    pods.filter(({ spec }) => spec?.nodeName === name),
    ({ metadata }) => metadata?.labels?.[ownLabel],
  );
  const [clientPod] = own.get("client") ?? [];
  if (clientPod === undefined) throw new Error(`No client runs on node ${name}`);
  const client = { namespace: clientPod.metadata?.namespace ?? "", pod: nameOf(clientPod) };
  const findDaemon = async (): Promise<Daemon["place"]> =>
    (await daemonOn({ listDaemons }, name)).place;
  return {
    name,
    addresses: (node.status?.addresses ?? [])
      .filter(({ type }) => type === "InternalIP")
      .map(({ address }) => address),
    ...(zone === "" ? {} : { zone }),
    client,
    fromPod: new Vantage(`a pod on ${name}`, shell, async () => client),
    fromHost: new Vantage(`node ${name}`, shell, findDaemon),
    backends: (own.get("backend") ?? []).map((pod) => ({
      name: nameOf(pod),
      addresses: (pod.status?.podIPs ?? []).map(({ ip }) => ip),
    })),
  };
}

/** Uses an existing unused namespace, such as deploy/kustomize/e2e's. Replaces an earlier run's namespace. */
async function makeNamespace(context: RunContext): Promise<void> {
  const { api, options, progress } = context;
  const { namespace } = options;
  const found = await unlessMissing(api.core.readNamespace({ name: namespace }));
  if (found !== undefined) {
    if (isOwn(found) && (await isUnused(api, found))) return;
    progress(`Removing namespace ${namespace}, left over from an earlier run`);
    await removeAll(context);
  }
  await api.core.createNamespace({ body: namespaceObject(namespace) });
}

function isOwn({ metadata }: V1Namespace): boolean {
  return metadata?.labels?.[ownLabel] === "true";
}

/** A namespace without pods is unused, because every run creates its pods before other objects. */
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

/**
 * Creates an EndpointSlice. Only the first backend's hint names the first node's zone; others name a zone without
 * nodes.
 */
async function makeHints(
  { api, options: { namespace } }: RunContext,
  nodes: readonly TestNode[],
): Promise<void> {
  const backends = nodes.flatMap((node) => node.backends.map((one) => ({ ...one, node })));
  const endpoints = backends.map(({ addresses: [address = ""], node }, index) => {
    const zone = (index === 0 ? node.zone : undefined) ?? nowhere;
    return { address, nodeName: node.name, zone };
  });
  const body = hintsSlice(namespace, endpoints);
  await api.discovery.createNamespacedEndpointSlice({ namespace, body });
}

/** Deletes the namespace and waits until it is gone. Rejects if the namespace does not have our label. */
export async function removeAll(context: RunContext): Promise<void> {
  const { api, options } = context;
  const name = options.namespace;
  const find = (): Promise<V1Namespace | undefined> =>
    unlessMissing(api.core.readNamespace({ name }));
  const found = await find();
  if (found === undefined) return;
  if (!isOwn(found)) {
    throw new Error(
      `Namespace ${name} does not belong to kube-ipvs-e2e; choose a different one with --namespace`,
    );
  }
  await unlessMissing(api.core.deleteNamespace({ name }));
  await new Patience(context, preparationMs).until(`the deletion of namespace ${name}`, async () =>
    (await find()) === undefined ? true : undefined,
  );
}
