import { familyOf, type IpFamily, ipFamilies, parseIpAddress } from "../../base/ip.ts";
import { toServiceName } from "../../base/service-name.ts";
import type { SelectingService, TargetedPort } from "../../endpoint-slices/objects.ts";
import type { Untrusted } from "./fields.ts";
import { isSafeName, type ObjectIdentity } from "./identity.ts";
import { labelsOf, plainTextIn } from "./labels.ts";
import { portNameIn, portNumberIn, protocolIn } from "./ports.ts";

/** Decodes the fields of a Service that determine its endpoints. `undefined` if the Service does not select Pods. */
export function decodeSelectingService(
  object: Untrusted,
  identity: ObjectIdentity,
): SelectingService | undefined {
  const spec = object.field("spec");
  const selector = labelsOf(spec.field("selector"));
  if (spec.valueAt("type") === "ExternalName" || Object.keys(selector).length === 0)
    return undefined;
  const trafficDistribution = distributions.get(spec.valueAt("trafficDistribution"));
  return {
    name: toServiceName(identity.name),
    uid: plainTextIn(object.field("metadata"), "uid"),
    selector,
    labels: labelsOf(object.at("metadata", "labels")),
    families: familiesOf(spec),
    ports: spec.field("ports").each(portOf),
    publishesNotReady: spec.valueAt("publishNotReadyAddresses") === true,
    isHeadless: spec.valueAt("clusterIP") === "None",
    ...(trafficDistribution === undefined ? {} : { trafficDistribution }),
  };
}

const distributions: ReadonlyMap<unknown, SelectingService["trafficDistribution"]> = new Map([
  ["PreferClose", "zone"],
  ["PreferSameZone", "zone"],
  ["PreferSameNode", "node"],
] as const);

/** Reports nothing, because the node daemon reports invalid addresses. */
function familiesOf(spec: Untrusted): readonly IpFamily[] {
  const given = textsOf(spec.valueAt("ipFamilies"));
  const named = ipFamilies.filter((family) => given.includes(family));
  if (named.length > 0) return named;
  const single = spec.valueAt("clusterIP");
  const texts = [...textsOf(spec.valueAt("clusterIPs")), ...textsOf([single])];
  const addresses = texts.map(parseIpAddress).filter((address) => address !== undefined);
  return ipFamilies.filter((family) => addresses.some((address) => familyOf(address) === family));
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((text) => typeof text === "string") : [];
}

function portOf(given: Untrusted): TargetedPort | undefined {
  const name = portNameIn(given, "name");
  const protocol = protocolIn(given, "protocol");
  const target = targetOf(given);
  if (name === undefined || protocol === undefined || target === undefined) return undefined;
  return { name, protocol, target, appProtocol: plainTextIn(given, "appProtocol") };
}

/** Reads targetPort, a number or a name. Defaults to the Service's own port. */
function targetOf(port: Untrusted): number | string | undefined {
  const target = port.field("targetPort");
  const { value } = target;
  if (target.isAbsent || value === 0 || value === "") return portNumberIn(port, "port");
  if (typeof value === "number") return portNumberIn(port, "targetPort");
  return isSafeName(value) ? target.intern(value) : target.refuse("invalid-name");
}
