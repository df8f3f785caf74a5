import type { NodeRecord } from "../api/objects.ts";
import type { ServiceName } from "../base/service-name.ts";
import type { PodRecord, SelectingService, StoredSlice } from "../endpoint-slices/objects.ts";
import type { SliceSituation } from "../endpoint-slices/plan-slices.ts";
import { PodIndex } from "../endpoint-slices/pod-index.ts";
import { namespaceOf, selects } from "../endpoint-slices/selection.ts";

/**
 * The last known objects that determine endpoints. Each change returns the Services that depend on the changed object.
 */
export class EndpointObjects {
  readonly #services = new Map<ServiceName, SelectingService>();
  readonly #servicesByNamespace = new Map<string, Map<ServiceName, SelectingService>>();
  readonly #pods = new PodIndex();
  readonly #slices = new Map<ServiceName, Map<string, StoredSlice>>();
  readonly #sliceNames = new Set<string>();
  readonly #zones = new Map<string, string>();

  /** Services that select Pods, and Services that own slices. */
  names(): ReadonlySet<ServiceName> {
    return new Set([...this.#services.keys(), ...this.#slices.keys()]);
  }

  replaceService(
    previous: SelectingService | undefined,
    current: SelectingService | undefined,
  ): readonly ServiceName[] {
    const name = (current ?? previous)?.name;
    if (name === undefined) return [];
    if (current === undefined) this.#services.delete(name);
    else this.#services.set(name, current);
    replaceIn(this.#servicesByNamespace, namespaceOf(name), name, current);
    return [name];
  }

  replacePod(
    previous: PodRecord | undefined,
    current: PodRecord | undefined,
  ): readonly ServiceName[] {
    this.#pods.replace(previous, current);
    const concerned = [previous, current].flatMap((pod) =>
      pod === undefined ? [] : this.#of(pod),
    );
    return [...new Set(concerned)];
  }

  replaceSlice(
    previous: StoredSlice | undefined,
    current: StoredSlice | undefined,
  ): readonly ServiceName[] {
    if (previous !== undefined) {
      replaceIn(this.#slices, previous.service, previous.name, undefined);
      this.#sliceNames.delete(previous.name);
    }
    if (current !== undefined) {
      replaceIn(this.#slices, current.service, current.name, current);
      this.#sliceNames.add(current.name);
    }
    const concerned = [previous, current].flatMap((slice) => slice?.service ?? []);
    return [...new Set(concerned)];
  }

  /** If the Node's zone changed, which is rare, returns all Services, because any of them may have Pods on the Node. */
  replaceNode(
    previous: NodeRecord | undefined,
    current: NodeRecord | undefined,
  ): readonly ServiceName[] {
    const name = (current ?? previous)?.name;
    if (name === undefined || previous?.zone === current?.zone) return [];
    if (current?.zone === undefined) this.#zones.delete(name);
    else this.#zones.set(name, current.zone);
    return [...this.#services.keys()];
  }

  /** Everything that determines the slices of a Service. */
  situationOf(name: ServiceName): SliceSituation {
    const service = this.#services.get(name);
    return {
      name,
      service,
      pods: service === undefined ? [] : this.#pods.candidates(service),
      stored: [...(this.#slices.get(name)?.values() ?? [])],
      isNameTaken: (taken) => this.#sliceNames.has(taken),
      zoneOf: (node) => this.#zones.get(node),
    };
  }

  #of(pod: PodRecord): readonly ServiceName[] {
    const services = this.#servicesByNamespace.get(namespaceOf(pod.name)) ?? new Map();
    return [...services.values()]
      .filter(({ selector }) => selects(selector, pod.labels))
      .map(({ name }) => name);
  }
}

function replaceIn<T>(
  maps: Map<string, Map<string, T>>,
  group: string,
  name: string,
  current: T | undefined,
): void {
  const map = maps.get(group) ?? new Map<string, T>();
  if (current === undefined) map.delete(name);
  else map.set(name, current);
  if (map.size === 0) maps.delete(group);
  else maps.set(group, map);
}
