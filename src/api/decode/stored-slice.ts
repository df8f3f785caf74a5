import { type IpAddress, ipFamilies, parseIpAddress } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { managedByLabel, ourManagerName, serviceNameLabel } from "../../endpoint-slices/labels.ts";
import type { SliceEndpoint, SlicePort, StoredSlice } from "../../endpoint-slices/objects.ts";
import { type DecodeScope, fieldOf, pathOf } from "./fields.ts";
import { isSafeName, type ObjectIdentity } from "./identity.ts";
import { labelsOf, plainTextOf } from "./labels.ts";

/**
 * Narrows an EndpointSlice to what its manager must know; `undefined` without a Service. What is invalid in a slice
 * of ours makes it differ from what it should be, and so it is written again.
 */
export function decodeStoredSlice(
  scope: DecodeScope,
  identity: ObjectIdentity,
  object: unknown,
): StoredSlice | undefined {
  const metadata = fieldOf(object, "metadata");
  const labels = labelsOf(scope, fieldOf(metadata, "labels"));
  const owner = labels[serviceNameLabel];
  if (!isSafeName(owner)) return undefined;
  const managedBy = labels[managedByLabel] ?? "";
  const endpoints = itemsOf(fieldOf(object, "endpoints"));
  const isOurs = managedBy === ourManagerName;
  const addressType = fieldOf(object, "addressType");
  const family = ipFamilies.find((candidate) => candidate === addressType);
  return {
    name: identity.name,
    service: scope.texts.intern(`${identity.namespace}/${owner}`),
    managedBy,
    hasEndpoints: endpoints.length > 0,
    uid: plainTextOf(scope, fieldOf(metadata, "uid")),
    // Grows with each change: not one for the pool.
    resourceVersion: isOurs ? String(fieldOf(metadata, "resourceVersion") ?? "") : "",
    ...(family === undefined ? {} : { family }),
    labels: isOurs ? labels : {},
    ownerUid: isOurs ? ownerUidOf(scope, metadata) : "",
    ports: isOurs ? itemsOf(fieldOf(object, "ports")).map((port) => portOf(scope, port)) : none,
    endpoints: isOurs ? endpoints.map((endpoint) => endpointOf(scope, endpoint)) : none,
  };
}

function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : none;
}

/** Of the owner that is a Service; another one is no owner of ours. */
function ownerUidOf(scope: DecodeScope, metadata: unknown): string {
  const owners = itemsOf(fieldOf(metadata, "ownerReferences"));
  const service = owners.find((owner) => fieldOf(owner, "kind") === "Service");
  return plainTextOf(scope, fieldOf(service, "uid"));
}

function portOf(scope: DecodeScope, port: unknown): SlicePort {
  const number = fieldOf(port, "port");
  const protocol = fieldOf(port, "protocol");
  return {
    name: plainTextOf(scope, fieldOf(port, "name")),
    protocol: protocol === "UDP" || protocol === "SCTP" ? protocol : "TCP",
    port: typeof number === "number" ? number : 0,
    appProtocol: plainTextOf(scope, fieldOf(port, "appProtocol")),
  };
}

function endpointOf(scope: DecodeScope, endpoint: unknown): SliceEndpoint {
  const [text, ...more] = itemsOf(fieldOf(endpoint, "addresses"));
  const address = typeof text === "string" ? parseIpAddress(text) : undefined;
  const target = fieldOf(endpoint, "targetRef");
  const conditions = fieldOf(endpoint, "conditions");
  const zone = plainTextOf(scope, fieldOf(endpoint, "zone"));
  // Without one address it is no endpoint that we wrote.
  const isOfPod = address !== undefined && more.length === 0;
  return {
    pod: isOfPod ? podNameOf(scope, target) : "",
    podUid: plainTextOf(scope, fieldOf(target, "uid")),
    address: address ?? noAddress,
    nodeName: plainTextOf(scope, fieldOf(endpoint, "nodeName")),
    hostname: plainTextOf(scope, fieldOf(endpoint, "hostname")),
    isReady: fieldOf(conditions, "ready") === true,
    isServing: fieldOf(conditions, "serving") === true,
    isTerminating: fieldOf(conditions, "terminating") === true,
    ...(zone === "" ? {} : { zone }),
    ...hintsOf(scope, endpoint, "zoneHints"),
    ...hintsOf(scope, endpoint, "nodeHints"),
  };
}

const hintFields = { zoneHints: "forZones", nodeHints: "forNodes" } as const;

function hintsOf(
  scope: DecodeScope,
  endpoint: unknown,
  kind: keyof typeof hintFields,
): Pick<SliceEndpoint, "zoneHints" | "nodeHints"> {
  const items = itemsOf(pathOf(endpoint, "hints", hintFields[kind]));
  const names = items.map((item) => plainTextOf(scope, fieldOf(item, "name")));
  return names.length === 0 ? {} : { [kind]: names };
}

const noAddress = "" as IpAddress;

function podNameOf(scope: DecodeScope, target: unknown): string {
  const namespace = plainTextOf(scope, fieldOf(target, "namespace"));
  const name = plainTextOf(scope, fieldOf(target, "name"));
  return fieldOf(target, "kind") === "Pod" ? scope.texts.intern(`${namespace}/${name}`) : "";
}
