import { familyOf, type IpFamily, ipFamilies } from "../base/ip.ts";
import type { Labels, PodRecord, SelectingService } from "./objects.ts";

/** Whether the labels contain every label of the selector with the same value. Pure. */
export function selects(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(
    ([name, value]) => Object.hasOwn(labels, name) && labels[name] === value,
  );
}

/** The namespace in `namespace/name`. */
export function namespaceOf(name: string): string {
  return name.slice(0, name.indexOf("/"));
}

/** The name in `namespace/name`. */
export function bareName(name: string): string {
  return name.slice(name.indexOf("/") + 1);
}

/** A Service's Pods, sorted by name so that equal input yields equal slices. Pure. */
export function podsOf(service: SelectingService, pods: Iterable<PodRecord>): readonly PodRecord[] {
  const namespace = namespaceOf(service.name);
  const selected = [...pods].filter(
    (pod) => namespaceOf(pod.name) === namespace && selects(service.selector, pod.labels),
  );
  return selected.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** The families of a Service's slices. If the Service does not specify any, those of its Pods apply. Pure. */
export function familiesOf(
  service: SelectingService,
  pods: readonly PodRecord[],
): readonly IpFamily[] {
  if (service.families.length > 0) return service.families;
  const found = new Set(pods.flatMap(({ addresses }) => addresses.map(familyOf)));
  return found.size === 0 ? ["IPv4"] : ipFamilies.filter((family) => found.has(family));
}
