/** A cluster of many similar Services, as API objects and as the plan for them. */

import { decodeObject } from "../../src/api/decode/decode-object.ts";
import { TextPool } from "../../src/api/decode/flat-text.ts";
import type { EndpointSliceRecord, ServiceRecord } from "../../src/api/objects.ts";
import type { IpAddress } from "../../src/base/ip.ts";
import type { Networks } from "../../src/base/networks.ts";
import type { ServiceName } from "../../src/base/service-name.ts";
import { DesiredState } from "../../src/plan/desired-state.ts";
import type { PlanOptions } from "../../src/plan/options.ts";
import type { TuningFacts } from "../../src/plan/tuning-facts.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "./objects.ts";
import { planService } from "./plan-at-once.ts";
import { familyOptions, planOptions } from "./records.ts";

/** The cluster IP of the Service with this number, starting at 10.96.1.0. */
export function clusterIpOf(index: number): string {
  const network = 1 + Math.floor(index / 250);
  return `10.${96 + (network >> 8)}.${network & 255}.${1 + (index % 250)}`;
}

/** A Service's n-th endpoint, which is on another node and belongs to no other Service. */
export function endpointOf(index: number, position: number): string {
  const number = index * 16 + position;
  return `10.${240 + Math.floor(number / 62_500)}.${Math.floor(number / 250) % 250}.${1 + (number % 250)}`;
}

export function nameOf(index: number): string {
  return `svc-${index}`;
}

export function serviceOf(index: number): ApiObject {
  return service({ name: nameOf(index), clusterIps: [clusterIpOf(index)] });
}

export function sliceOf(index: number, positions: readonly number[]): ApiObject {
  const endpoints = positions.map((position) =>
    endpoint(endpointOf(index, position), { nodeName: "node-2" }),
  );
  return endpointSlice({ name: `${nameOf(index)}-a`, service: nameOf(index), endpoints });
}

/** Positions 0 to `count` - 1. */
export function positions(count: number): readonly number[] {
  return Array.from({ length: count }, (_, position) => position);
}

/** Settings and facts for Services that use abilities of docs/tuning.md. */
export interface Abilities {
  readonly options: Partial<PlanOptions>;
  /** IPv4. */
  readonly unboundNetworks: Networks;
  readonly facts: TuningFacts;
}

/** The planned state for these objects, on a node with these addresses. */
export function desiredFrom(
  objects: Iterable<ApiObject>,
  nodeAddresses: readonly IpAddress[],
  abilities?: Abilities,
): DesiredState {
  const services = new Map<ServiceName, ServiceRecord>();
  const slices = new Map<ServiceName, EndpointSliceRecord[]>();
  const into = { refuse: () => {}, texts: new TextPool() };
  for (const object of objects) {
    if (object.kind === "Service") {
      const record = decodeObject("services", object, into)?.record;
      if (record !== undefined) services.set(record.name, record);
    } else if (object.kind === "EndpointSlice") {
      const record = decodeObject("endpointslices", object, into)?.record;
      if (record !== undefined) {
        slices.set(record.service, [...(slices.get(record.service) ?? []), record]);
      }
    }
  }
  const own = {
    ...{ nodeAddresses: new Set(nodeAddresses), nodePortAddresses: nodeAddresses },
    ...(abilities === undefined ? {} : { unboundNetworks: abilities.unboundNetworks }),
  };
  const options = planOptions({
    ...abilities?.options,
    families: new Map([
      ["IPv4", familyOptions("IPv4", own)],
      ["IPv6", familyOptions("IPv6", { nodeAddresses: new Set(), nodePortAddresses: [] })],
    ]),
  });
  const desired = new DesiredState();
  for (const [name, record] of services) {
    const own = slices.get(name) ?? [];
    for (const plan of planService(name, record, own, options, abilities?.facts)) {
      desired.replace(plan.service, plan.family, plan.servicePorts);
    }
  }
  return desired;
}
