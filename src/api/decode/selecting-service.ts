import { familyOf, type IpFamily, ipFamilies, parseIpAddress } from "../../base/ip.ts";
import type { SelectingService, TargetedPort } from "../../endpoint-slices/objects.ts";
import { type DecodeScope, fieldOf, isAbsent, listAt, pathOf, refusePart } from "./fields.ts";
import type { ObjectIdentity } from "./identity.ts";
import { isSafeName } from "./identity.ts";
import { labelsOf, plainTextOf } from "./labels.ts";
import { portNameAt, portNumberAt, protocolAt } from "./ports.ts";

/** Narrows a Service to what its endpoints depend on; `undefined` for one that selects no Pods. */
export function decodeSelectingService(
  scope: DecodeScope,
  identity: ObjectIdentity,
  object: unknown,
): SelectingService | undefined {
  const spec = fieldOf(object, "spec");
  const selector = labelsOf(scope, fieldOf(spec, "selector"));
  if (fieldOf(spec, "type") === "ExternalName" || Object.keys(selector).length === 0)
    return undefined;
  const trafficDistribution = distributions.get(fieldOf(spec, "trafficDistribution"));
  return {
    name: identity.name,
    uid: plainTextOf(scope, pathOf(object, "metadata", "uid")),
    selector,
    labels: labelsOf(scope, pathOf(object, "metadata", "labels")),
    families: familiesOf(spec),
    ports: portsOf(scope, spec),
    publishesNotReady: fieldOf(spec, "publishNotReadyAddresses") === true,
    isHeadless: fieldOf(spec, "clusterIP") === "None",
    ...(trafficDistribution === undefined ? {} : { trafficDistribution }),
  };
}

const distributions: ReadonlyMap<unknown, SelectingService["trafficDistribution"]> = new Map([
  ["PreferClose", "zone"],
  ["PreferSameZone", "zone"],
  ["PreferSameNode", "node"],
] as const);

/** What is invalid about addresses is the node daemon's to report. */
function familiesOf(spec: unknown): readonly IpFamily[] {
  const given = textsOf(fieldOf(spec, "ipFamilies"));
  const named = ipFamilies.filter((family) => given.includes(family));
  if (named.length > 0) return named;
  const single = fieldOf(spec, "clusterIP");
  const texts = [...textsOf(fieldOf(spec, "clusterIPs")), ...textsOf([single])];
  const addresses = texts.map(parseIpAddress).filter((address) => address !== undefined);
  return ipFamilies.filter((family) => addresses.some((address) => familyOf(address) === family));
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((text) => typeof text === "string") : [];
}

function portsOf(scope: DecodeScope, spec: unknown): readonly TargetedPort[] {
  const values = listAt(scope, fieldOf(spec, "ports"), "spec.ports");
  return values.flatMap((value, index) => portAt(scope, value, `spec.ports[${index}]`) ?? []);
}

function portAt(scope: DecodeScope, value: unknown, field: string): TargetedPort | undefined {
  const name = portNameAt(scope, fieldOf(value, "name"), `${field}.name`);
  const protocol = protocolAt(scope, fieldOf(value, "protocol"), `${field}.protocol`);
  const target = targetAt(scope, value, field);
  if (name === undefined || protocol === undefined || target === undefined) return undefined;
  return { name, protocol, target, appProtocol: plainTextOf(scope, fieldOf(value, "appProtocol")) };
}

/** A number, or a name; without any the port of the Service itself. */
function targetAt(scope: DecodeScope, value: unknown, field: string): number | string | undefined {
  const target = fieldOf(value, "targetPort");
  if (isAbsent(target) || target === 0 || target === "") {
    return portNumberAt(scope, fieldOf(value, "port"), `${field}.port`);
  }
  if (typeof target === "number") return portNumberAt(scope, target, `${field}.targetPort`);
  if (isSafeName(target)) return scope.texts.intern(target);
  return refusePart(scope, `${field}.targetPort`, "invalid-name", target);
}
