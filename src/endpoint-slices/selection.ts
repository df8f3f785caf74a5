import { familyOf, type IpFamily, ipFamilies } from "../base/ip.ts";
import type { Labels, PodRecord, SelectingService } from "./objects.ts";

/** True when every label of the selector has the same value. Pure. */
export function selects(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(
    ([name, value]) => Object.hasOwn(labels, name) && labels[name] === value,
  );
}

/** The namespace of `namespace/name`. */
export function namespaceOf(name: string): string {
  return name.slice(0, name.indexOf("/"));
}

/** The name without the namespace of `namespace/name`. */
export function bareName(name: string): string {
  return name.slice(name.indexOf("/") + 1);
}

/** The Pods of a Service, in the order of their names, so that equal input gives equal slices. Pure. */
export function podsOf(service: SelectingService, pods: Iterable<PodRecord>): readonly PodRecord[] {
  const namespace = namespaceOf(service.name);
  const selected = [...pods].filter(
    (pod) => namespaceOf(pod.name) === namespace && selects(service.selector, pod.labels),
  );
  return selected.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** The families in which a Service has slices; a Service that says nothing has those of its Pods. Pure. */
export function familiesOf(
  service: SelectingService,
  pods: readonly PodRecord[],
): readonly IpFamily[] {
  if (service.families.length > 0) return service.families;
  const found = new Set(pods.flatMap(({ addresses }) => addresses.map(familyOf)));
  return found.size === 0 ? ["IPv4"] : ipFamilies.filter((family) => found.has(family));
}
