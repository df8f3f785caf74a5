import { familyOf, type IpFamily, ipFamilies, isLinkLocal } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { toServiceName } from "../../base/service-name.ts";
import { headlessLabel, serviceNameLabel } from "../../endpoint-slices/objects.ts";
import type { EndpointRecord, EndpointSliceRecord, SlicePortRecord } from "../objects.ts";
import { addressOf } from "./addresses.ts";
import { sliceWeightText } from "./annotations.ts";
import { fieldOf, isAbsent, labelTextIn, timeMsOf, type Untrusted } from "./fields.ts";
import { isSafeName, type ObjectIdentity } from "./identity.ts";
import { portNameIn, portNumberIn, protocolIn } from "./ports.ts";

const triggerTimeAnnotation = "endpoints.kubernetes.io/last-change-trigger-time";

/**
 * Decodes an EndpointSlice. Undefined if its Service is headless or not named, or if the address type is not
 * supported.
 */
export function decodeEndpointSlice(
  object: Untrusted,
  identity: ObjectIdentity,
): EndpointSliceRecord | undefined {
  const labels = object.at("metadata", "labels");
  // The label applies even if its value is empty.
  if (labels.valueAt(headlessLabel) !== undefined) return undefined;
  const owner = labels.valueAt(serviceNameLabel);
  if (isAbsent(owner)) return labels.with(owner).refuse("missing-service-label");
  if (!isSafeName(owner)) return labels.field(serviceNameLabel).refuse("invalid-service-label");
  const addressType = object.field("addressType");
  const family = ipFamilies.find((candidate) => candidate === addressType.value);
  if (family === undefined) return addressType.refuse("unsupported-address-type");
  const triggeredAtMs = triggerTimeOf(object);
  const weightText = sliceWeightText(object);
  return {
    name: identity.name,
    service: toServiceName(object.intern(`${identity.namespace}/${owner}`)),
    family,
    ports: object.field("ports").each(portOf),
    endpoints: object.field("endpoints").each((endpoint) => endpointOf(endpoint, family)),
    ...(weightText === undefined ? {} : { weightText }),
    ...(triggeredAtMs === undefined ? {} : { triggeredAtMs }),
  };
}

function triggerTimeOf(object: Untrusted): number | undefined {
  const given = object.at("metadata", "annotations", triggerTimeAnnotation);
  return given.isAbsent
    ? undefined
    : (timeMsOf(given.value) ?? given.refuse("invalid-trigger-time"));
}

/** In the API, a port without a name or a number means all ports. kube-ipvs does not support that. */
function portOf(given: Untrusted): SlicePortRecord | undefined {
  const number = given.valueAt("port");
  if (isAbsent(given.valueAt("name"))) return given.field("name").refuse("missing-port-name");
  if (isAbsent(number) || number === 0) return given.field("port").refuse("missing-port-number");
  const name = portNameIn(given, "name");
  const port = portNumberIn(given, "port");
  const protocol = protocolIn(given, "protocol");
  if (name === undefined || protocol === undefined || port === undefined) return undefined;
  return { name, protocol, port };
}

function endpointOf(given: Untrusted, family: IpFamily): EndpointRecord | undefined {
  const addresses = given.field("addresses");
  const first = addresses.item(0);
  if (first.isAbsent) return first.with(addresses.value).refuse("missing-endpoint-address");
  const address = addressOf(first, "invalid-endpoint-address");
  if (address === undefined) return undefined;
  if (familyOf(address) !== family) return first.refuse("invalid-endpoint-address");
  // Like an API server, rejects link-local addresses, which neighbors and cloud metadata services use.
  if (isLinkLocal(address)) return first.refuse("link-local-endpoint");
  const conditions = conditionsOf(given.field("conditions"));
  if (conditions === undefined) return undefined;
  const zoneHints = hintsIn(given, "forZones");
  const nodeHints = hintsIn(given, "forNodes");
  const zone = labelTextIn(given, "zone");
  return {
    address,
    nodeName: labelTextIn(given, "nodeName") ?? "",
    ...conditions,
    ...(zone === undefined ? {} : { zone }),
    ...(zoneHints.length === 0 ? {} : { zoneHints }),
    ...(nodeHints.length === 0 ? {} : { nodeHints }),
  };
}

type Conditions = Pick<EndpointRecord, "isReady" | "isServing" | "isTerminating">;

/** Absent conditions mean ready, serving and not terminating (discovery/v1 EndpointConditions). */
function conditionsOf(given: Untrusted): Conditions | undefined {
  const isReady = conditionIn(given, "ready", true);
  const isServing = conditionIn(given, "serving", true);
  const isTerminating = conditionIn(given, "terminating", false);
  if (isReady === undefined || isServing === undefined || isTerminating === undefined) {
    return undefined;
  }
  return { isReady, isServing, isTerminating };
}

function conditionIn(given: Untrusted, name: string, absent: boolean): boolean | undefined {
  const value = given.valueAt(name);
  if (isAbsent(value)) return absent;
  return typeof value === "boolean" ? value : given.field(name).refuse("invalid-condition");
}

function hintsIn(endpoint: Untrusted, name: "forZones" | "forNodes"): readonly string[] {
  if (isAbsent(fieldOf(endpoint.valueAt("hints"), name))) return none;
  const list = endpoint.at("hints", name);
  return [...new Set(list.each((hint) => labelTextIn(hint, "name")))];
}
