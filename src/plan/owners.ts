import type { ServiceName } from "../api/objects.ts";
import { type ServicePortKey, servicePortKey } from "../model/service-port.ts";
import type { ServicePortPlan } from "./service-port-plan.ts";

type Owner = ServicePortPlan;

/**
 * Values and their owners, which are the service port plans that request them. A value is present as long as at least
 * one plan requests it. A plan may request a value more than once. A value with a single owner, which is the usual
 * case, costs one pointer.
 */
export class Owners<T> {
  readonly #owners = new Map<T, Owner | Owner[]>();

  /** Returns whether the value is new. */
  add(value: T, owner: Owner): boolean {
    const present = this.#owners.get(value);
    if (present === undefined) this.#owners.set(value, owner);
    else if (Array.isArray(present)) present.push(owner);
    else this.#owners.set(value, [present, owner]);
    return present === undefined;
  }

  /** Returns whether the removed owner was the last one. */
  remove(value: T, owner: Owner): boolean {
    const present = this.#owners.get(value);
    if (!Array.isArray(present)) return present === owner && this.#owners.delete(value);
    const index = present.indexOf(owner);
    if (index >= 0) present.splice(index, 1);
    const [only] = present;
    if (only !== undefined && present.length === 1) this.#owners.set(value, only);
    return false;
  }

  has(value: T): boolean {
    return this.#owners.has(value);
  }

  /** The plans that request the value. Empty if there are none. */
  of(value: T): readonly Owner[] {
    const present = this.#owners.get(value);
    if (present === undefined) return [];
    return Array.isArray(present) ? present : [present];
  }

  get size(): number {
    return this.#owners.size;
  }

  values(): IterableIterator<T> {
    return this.#owners.keys();
  }
}

export function serviceNames(plans: readonly ServicePortPlan[]): readonly ServiceName[] {
  return [...new Set(plans.map(({ servicePort }) => servicePort.service))];
}

export function byServicePort(
  plans: readonly ServicePortPlan[],
): ReadonlyMap<ServicePortKey, ServicePortPlan> {
  return new Map(plans.map((plan) => [servicePortKey(plan.servicePort), plan]));
}
