import { familyOf, type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { EndpointRecord, EndpointSliceRecord, SlicePortRecord } from "../objects.ts";
import { addressAt } from "./addresses.ts";
import { sliceWeightText } from "./annotations.ts";
import {
  type DecodeScope,
  fieldOf,
  isAbsent,
  labelTextAt,
  listAt,
  pathOf,
  refusePart,
  timeMsOf,
} from "./fields.ts";
import { isSafeName, type ObjectIdentity } from "./identity.ts";
import { portNameAt, portNumberAt, protocolAt } from "./ports.ts";

/** A slice with this label, whatever its value, belongs to a headless Service. */
export const headlessLabel = "service.kubernetes.io/headless";
const serviceNameLabel = "kubernetes.io/service-name";
const triggerTimeAnnotation = "endpoints.kubernetes.io/last-change-trigger-time";

/** Narrows an EndpointSlice; `undefined` for a headless Service's, without its Service, of another type. */
export function decodeEndpointSlice(
  scope: DecodeScope,
  identity: ObjectIdentity,
  object: unknown,
): EndpointSliceRecord | undefined {
  const labels = pathOf(object, "metadata", "labels");
  if (fieldOf(labels, headlessLabel) !== undefined) return undefined;
  const owner = fieldOf(labels, serviceNameLabel);
  if (!isSafeName(owner))
    return refusePart(scope, "metadata.labels", "missing-service-label", owner);
  const addressType = fieldOf(object, "addressType");
  const family = ipFamilies.find((candidate) => candidate === addressType);
  if (family === undefined) {
    return refusePart(scope, "addressType", "unsupported-address-type", addressType);
  }
  const triggeredAtMs = triggerTimeOf(scope, object);
  const weightText = sliceWeightText(scope, object);
  return {
    name: identity.name,
    service: scope.texts.intern(`${identity.namespace}/${owner}`),
    family,
    ports: portsOf(scope, object),
    endpoints: endpointsOf(scope, object, family),
    ...(weightText === undefined ? {} : { weightText }),
    ...(triggeredAtMs === undefined ? {} : { triggeredAtMs }),
  };
}

function triggerTimeOf(scope: DecodeScope, object: unknown): number | undefined {
  const value = pathOf(object, "metadata", "annotations", triggerTimeAnnotation);
  if (isAbsent(value)) return undefined;
  const field = `metadata.annotations[${triggerTimeAnnotation}]`;
  return timeMsOf(value) ?? refusePart(scope, field, "invalid-trigger-time", value);
}

function portsOf(scope: DecodeScope, object: unknown): readonly SlicePortRecord[] {
  const ports: SlicePortRecord[] = [];
  for (const [index, value] of listAt(scope, fieldOf(object, "ports"), "ports").entries()) {
    const port = portAt(scope, value, `ports[${index}]`);
    if (port !== undefined) ports.push(port);
  }
  return ports.slice();
}

/** An absent name or number means "any" to the API; there is nothing to balance then. */
function portAt(scope: DecodeScope, value: unknown, field: string): SlicePortRecord | undefined {
  const givenName = fieldOf(value, "name");
  const givenNumber = fieldOf(value, "port");
  if (isAbsent(givenName))
    return refusePart(scope, `${field}.name`, "missing-port-name", givenName);
  if (isAbsent(givenNumber) || givenNumber === 0) {
    return refusePart(scope, `${field}.port`, "missing-port-number", givenNumber);
  }
  const name = portNameAt(scope, givenName, `${field}.name`);
  const port = portNumberAt(scope, givenNumber, `${field}.port`);
  const protocol = protocolAt(scope, fieldOf(value, "protocol"), `${field}.protocol`);
  if (name === undefined || protocol === undefined || port === undefined) return undefined;
  return { name, protocol, port };
}

function endpointsOf(
  scope: DecodeScope,
  object: unknown,
  family: IpFamily,
): readonly EndpointRecord[] {
  const endpoints: EndpointRecord[] = [];
  for (const [index, value] of listAt(scope, fieldOf(object, "endpoints"), "endpoints").entries()) {
    const endpoint = endpointAt(scope, value, `endpoints[${index}]`, family);
    if (endpoint !== undefined) endpoints.push(endpoint);
  }
  // A copy has no spare capacity; a list grown by push keeps half as much again.
  return endpoints.slice();
}

function endpointAt(
  scope: DecodeScope,
  value: unknown,
  field: string,
  family: IpFamily,
): EndpointRecord | undefined {
  const addresses = fieldOf(value, "addresses");
  const first: unknown = Array.isArray(addresses) ? addresses[0] : undefined;
  const addressField = `${field}.addresses[0]`;
  if (isAbsent(first))
    return refusePart(scope, addressField, "missing-endpoint-address", addresses);
  const address = addressAt(scope, first, addressField, "invalid-endpoint-address");
  if (address === undefined) return undefined;
  if (familyOf(address) !== family) {
    return refusePart(scope, addressField, "invalid-endpoint-address", first);
  }
  const conditions = conditionsAt(scope, fieldOf(value, "conditions"), `${field}.conditions`);
  if (conditions === undefined) return undefined;
  const zoneHints = hintsAt(scope, value, field, "forZones");
  const nodeHints = hintsAt(scope, value, field, "forNodes");
  const zone = labelTextAt(scope, fieldOf(value, "zone"), `${field}.zone`);
  return {
    address,
    nodeName: labelTextAt(scope, fieldOf(value, "nodeName"), `${field}.nodeName`) ?? "",
    ...conditions,
    ...(zone === undefined ? {} : { zone }),
    ...(zoneHints.length === 0 ? {} : { zoneHints }),
    ...(nodeHints.length === 0 ? {} : { nodeHints }),
  };
}

type Conditions = Pick<EndpointRecord, "isReady" | "isServing" | "isTerminating">;

/** Absent means ready, serving and not terminating (discovery/v1 EndpointConditions). */
function conditionsAt(scope: DecodeScope, value: unknown, field: string): Conditions | undefined {
  const isReady = conditionAt(scope, fieldOf(value, "ready"), `${field}.ready`, true);
  const isServing = conditionAt(scope, fieldOf(value, "serving"), `${field}.serving`, true);
  const isTerminating = conditionAt(
    scope,
    fieldOf(value, "terminating"),
    `${field}.terminating`,
    false,
  );
  if (isReady === undefined || isServing === undefined || isTerminating === undefined) {
    return undefined;
  }
  return { isReady, isServing, isTerminating };
}

function conditionAt(
  scope: DecodeScope,
  value: unknown,
  field: string,
  absent: boolean,
): boolean | undefined {
  if (isAbsent(value)) return absent;
  return typeof value === "boolean" ? value : refusePart(scope, field, "invalid-condition", value);
}

function hintsAt(
  scope: DecodeScope,
  endpoint: unknown,
  field: string,
  list: "forZones" | "forNodes",
): readonly string[] {
  const value = pathOf(endpoint, "hints", list);
  if (isAbsent(value)) return [];
  const names = new Set<string>();
  for (const [index, hint] of listAt(scope, value, `${field}.hints.${list}`).entries()) {
    const nameField = `${field}.hints.${list}[${index}].name`;
    const name = labelTextAt(scope, fieldOf(hint, "name"), nameField);
    if (name !== undefined) names.add(name);
  }
  return [...names];
}
