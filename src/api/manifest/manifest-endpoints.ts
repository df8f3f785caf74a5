import type { Logger } from "../../base/log.ts";
import {
  type NewSlice,
  ourManagerName,
  type SelectingService,
  type StoredSlice,
} from "../../endpoint-slices/objects.ts";
import { planSlices, type SlicePlan } from "../../endpoint-slices/plan-slices.ts";
import { PodIndex } from "../../endpoint-slices/pod-index.ts";
import { podsOf } from "../../endpoint-slices/selection.ts";
import type { EndpointSliceRecord, ServiceName } from "../objects.ts";
import type { EndpointSources } from "./read-file.ts";

/**
 * Creates EndpointSlices from the Pods in a folder, as `kube-ipvs endpoint-controller` does in a cluster. Endpoints
 * stay in their slice. Services that have slices in the folder use only those.
 */
export class ManifestEndpoints {
  readonly #log: Logger;
  readonly #made = new Map<ServiceName, readonly StoredSlice[]>();
  readonly #namedServices = new Set<ServiceName>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Returns the slices for the folder's current contents. `zones` contains the zones of nodes, by name. */
  make(parts: EndpointSources, zones: ReadonlyMap<string, string>): readonly EndpointSliceRecord[] {
    if (parts.pods.length === 0 && this.#made.size === 0) return [];
    const services = new Map(parts.services.map((service) => [service.name, service]));
    const names = new Set([...services.keys(), ...this.#made.keys()]);
    const folder = indexed(parts, zones);
    for (const name of names) this.#makeOf(name, services.get(name), folder);
    return [...this.#made.values()].flatMap((slices) => slices.flatMap(recordOf));
  }

  #makeOf(name: ServiceName, service: SelectingService | undefined, folder: Folder): void {
    // Slices in the folder take precedence over generated slices with the same name.
    const before = (this.#made.get(name) ?? []).filter((made) => !folder.names.has(made.name));
    const theirs = folder.slices.get(name) ?? [];
    const proxied = service?.isHeadless === false ? service : undefined;
    const pods = proxied === undefined ? [] : podsOf(proxied, folder.pods.candidates(proxied));
    const plan = planSlices({
      name,
      // Skips Services without Pods, so that no empty slices are created.
      service: pods.length === 0 ? undefined : proxied,
      pods,
      stored: [...before, ...theirs.map(asForeign)],
      isNameTaken: (taken) =>
        folder.names.has(taken) || before.some((slice) => slice.name === taken),
      zoneOf: (node) => folder.zones.get(node),
    });
    if (plan.managedBy !== undefined) this.#nameOnce(name);
    const after = carriedOut(before, plan);
    if (after.length === 0) this.#made.delete(name);
    else this.#made.set(name, after);
  }

  #nameOnce(service: ServiceName): void {
    if (this.#namedServices.has(service)) return;
    this.#namedServices.add(service);
    const event = "Service has EndpointSlices in the manifest directory, ignoring its Pods";
    this.#log.info(event, { service });
  }
}

/** The contents of a folder, indexed. */
interface Folder {
  readonly pods: PodIndex;
  readonly slices: ReadonlyMap<ServiceName, readonly StoredSlice[]>;
  /** Names of slices. */
  readonly names: ReadonlySet<string>;
  readonly zones: ReadonlyMap<string, string>;
}

function indexed(parts: EndpointSources, zones: Folder["zones"]): Folder {
  const pods = new PodIndex();
  for (const pod of parts.pods) pods.replace(undefined, pod);
  const slices = Map.groupBy(parts.slices, ({ service }) => service);
  const names = new Set(parts.slices.map(({ name }) => name));
  return { pods, slices, names, zones };
}

/** Marks slices from files as another manager's, because kube-ipvs cannot change files. */
function asForeign(slice: StoredSlice): StoredSlice {
  return { ...slice, managedBy: "", hasEndpoints: true };
}

function carriedOut(before: readonly StoredSlice[], plan: SlicePlan): readonly StoredSlice[] {
  const contents = new Map(plan.updates.map(({ stored, content }) => [stored, content]));
  const kept = before.filter((slice) => !plan.deletes.includes(slice));
  return [
    ...kept.map((slice) => ({ ...slice, ...contents.get(slice) })),
    ...plan.creates.map(madeOf),
  ];
}

function madeOf(slice: NewSlice): StoredSlice {
  const managedBy = ourManagerName;
  return { ...slice, managedBy, uid: "", resourceVersion: "", hasEndpoints: true };
}

function recordOf(slice: StoredSlice): readonly EndpointSliceRecord[] {
  const { name, service, family } = slice;
  if (family === undefined || slice.endpoints.length === 0) return [];
  const ports = slice.ports.map(({ appProtocol: _protocol, ...port }) => port);
  const endpoints = slice.endpoints.map(
    ({ pod: _pod, podUid: _uid, hostname: _host, ...endpoint }) => endpoint,
  );
  return [{ name, service, family, ports, endpoints }];
}
