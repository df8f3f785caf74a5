import type { IpAddress, IpFamily } from "./ip.ts";

/** `namespace/name`: the key of a Service and of its EndpointSlices. */
export type ServiceName = `${string}/${string}`;

/** Takes the name of a namespaced object, unchecked. */
export function toServiceName(text: string): ServiceName {
  return text as ServiceName;
}

/** Identifies the endpoints of a Service with the same address: `SERVICE ADDRESS`. */
export type ServiceAddress = string & { readonly __brand: "ServiceAddress" };

export function serviceAddress(service: ServiceName, address: IpAddress): ServiceAddress {
  return `${service} ${address}` as ServiceAddress;
}

/** Identifies the part of a Service in one IP family. */
export type FamilyServiceKey = string & { readonly __brand: "FamilyServiceKey" };

export function familyServiceKey(family: IpFamily, service: ServiceName): FamilyServiceKey {
  // `join` creates a flat string.
  return [family, service].join(" ") as FamilyServiceKey;
}
