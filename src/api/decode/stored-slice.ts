import { type IpAddress, ipFamilies } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { toServiceName } from "../../base/service-name.ts";
import {
  managedByLabel,
  ourManagerName,
  type SliceEndpoint,
  type SlicePort,
  type StoredSlice,
  serviceNameLabel,
} from "../../endpoint-slices/objects.ts";
import { parsedAddress } from "./addresses.ts";
import type { Untrusted } from "./fields.ts";
import { isSafeName, type ObjectIdentity } from "./identity.ts";
import { labelsOf, plainTextIn } from "./labels.ts";

/**
 * Decodes the EndpointSlice fields that its manager needs. `undefined` if the slice does not name a Service. Invalid
 * fields are not reported. In kube-ipvs's own slices, they differ from the plan and are therefore overwritten.
 */
export function decodeStoredSlice(
  object: Untrusted,
  identity: ObjectIdentity,
): StoredSlice | undefined {
  const metadata = object.field("metadata");
  const labels = labelsOf(metadata.field("labels"));
  const owner = labels[serviceNameLabel];
  if (!isSafeName(owner)) return undefined;
  const managedBy = labels[managedByLabel] ?? "";
  const endpoints = itemsOf(object.field("endpoints"));
  const isOurs = managedBy === ourManagerName;
  const addressType = object.valueAt("addressType");
  const family = ipFamilies.find((candidate) => candidate === addressType);
  return {
    name: identity.name,
    service: toServiceName(object.intern(`${identity.namespace}/${owner}`)),
    managedBy,
    hasEndpoints: endpoints.length > 0,
    uid: plainTextIn(metadata, "uid"),
    // Not interned, because every change has a new version.
    resourceVersion: isOurs ? String(metadata.valueAt("resourceVersion") ?? "") : "",
    ...(family === undefined ? {} : { family }),
    labels: isOurs ? labels : {},
    ownerUid: isOurs ? ownerUidOf(metadata) : "",
    ports: isOurs ? itemsOf(object.field("ports")).map(portOf) : none,
    endpoints: isOurs ? endpoints.map(endpointOf) : none,
  };
}

/** The elements of a list. Other values yield an empty list and are not reported. */
function itemsOf(list: Untrusted): readonly Untrusted[] {
  return Array.isArray(list.value) ? list.items() : none;
}

/** UID of the first owner that is a Service. Other owners are ignored. */
function ownerUidOf(metadata: Untrusted): string {
  const owners = itemsOf(metadata.field("ownerReferences"));
  const service = owners.find((owner) => owner.valueAt("kind") === "Service");
  return service === undefined ? "" : plainTextIn(service, "uid");
}

function portOf(given: Untrusted): SlicePort {
  const port = given.valueAt("port");
  const protocol = given.valueAt("protocol");
  return {
    name: plainTextIn(given, "name"),
    protocol: protocol === "UDP" || protocol === "SCTP" ? protocol : "TCP",
    port: typeof port === "number" ? port : 0,
    appProtocol: plainTextIn(given, "appProtocol"),
  };
}

function endpointOf(given: Untrusted): SliceEndpoint {
  const addresses = itemsOf(given.field("addresses"));
  const [first] = addresses;
  const address = first === undefined ? undefined : parsedAddress(first);
  const target = given.field("targetRef");
  const conditions = given.field("conditions");
  const zone = plainTextIn(given, "zone");
  // kube-ipvs's endpoints have exactly one address.
  const isOfPod = address !== undefined && addresses.length === 1;
  return {
    pod: isOfPod ? podNameOf(target) : "",
    podUid: plainTextIn(target, "uid"),
    address: address ?? noAddress,
    nodeName: plainTextIn(given, "nodeName"),
    hostname: plainTextIn(given, "hostname"),
    isReady: conditions.valueAt("ready") === true,
    isServing: conditions.valueAt("serving") === true,
    isTerminating: conditions.valueAt("terminating") === true,
    ...(zone === "" ? {} : { zone }),
    ...hintsOf(given, "zoneHints"),
    ...hintsOf(given, "nodeHints"),
  };
}

const hintFields = { zoneHints: "forZones", nodeHints: "forNodes" } as const;

function hintsOf(
  endpoint: Untrusted,
  kind: keyof typeof hintFields,
): Pick<SliceEndpoint, "zoneHints" | "nodeHints"> {
  const items = itemsOf(endpoint.at("hints", hintFields[kind]));
  const names = items.map((item) => plainTextIn(item, "name"));
  return names.length === 0 ? {} : { [kind]: names };
}

const noAddress = "" as IpAddress;

function podNameOf(target: Untrusted): string {
  if (target.valueAt("kind") !== "Pod") return "";
  const namespace = plainTextIn(target, "namespace");
  return target.intern(`${namespace}/${plainTextIn(target, "name")}`);
}
