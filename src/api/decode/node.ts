import { type Cidr, type IpAddress, parseIpAddress } from "../../base/ip.ts";
import { parseWeight } from "../../base/weight.ts";
import type { NodeRecord } from "../objects.ts";
import { cidrAt } from "./addresses.ts";
import {
  type DecodeScope,
  fieldOf,
  isAbsent,
  labelTextAt,
  listAt,
  pathOf,
  refusePart,
} from "./fields.ts";
import type { ObjectIdentity } from "./identity.ts";

const weightLabel = "kube-ipvs.io/weight";
const zoneLabel = "topology.kubernetes.io/zone";
/** The cluster autoscaler's mark of a node that it will remove; load balancers shall leave it. */
const deletionTaint = "ToBeDeletedByClusterAutoscaler";

/** Narrows a Node; a Node with a name is always usable. */
export function decodeNode(
  scope: DecodeScope,
  identity: ObjectIdentity,
  object: unknown,
): NodeRecord {
  const zoneField = `metadata.labels[${zoneLabel}]`;
  const zone = labelTextAt(scope, pathOf(object, "metadata", "labels", zoneLabel), zoneField);
  const weight = weightOf(scope, object);
  return {
    name: identity.name,
    addresses: addressesOf(scope, object),
    podCidrs: podCidrsOf(scope, object),
    ...(zone === undefined ? {} : { zone }),
    ...(weight === undefined ? {} : { weight }),
    isEligible: !isBeingDeleted(object) && !hasDeletionTaint(scope, object),
  };
}

/** What the Node's endpoints get of the connections of Services with weights by Node. */
function weightOf(scope: DecodeScope, object: unknown): number | undefined {
  const text = pathOf(object, "metadata", "labels", weightLabel);
  if (isAbsent(text)) return undefined;
  const weight = typeof text === "string" ? parseWeight(text) : undefined;
  return (
    weight ?? refusePart(scope, `metadata.labels[${weightLabel}]`, "invalid-node-weight", text)
  );
}

/** InternalIP in the order of the object, then ExternalIP; host names are not addresses. */
function addressesOf(scope: DecodeScope, object: unknown): readonly IpAddress[] {
  const entries = listAt(scope, pathOf(object, "status", "addresses"), "status.addresses");
  const addresses: IpAddress[] = [];
  for (const type of ["InternalIP", "ExternalIP"]) {
    for (const [index, entry] of entries.entries()) {
      if (fieldOf(entry, "type") !== type) continue;
      const address = addressAt(scope, fieldOf(entry, "address"), index);
      if (address !== undefined) addresses.push(address);
    }
  }
  return addresses.slice();
}

function addressAt(scope: DecodeScope, value: unknown, index: number): IpAddress | undefined {
  const address = typeof value === "string" ? parseIpAddress(value) : undefined;
  const field = `status.addresses[${index}].address`;
  return address ?? refusePart(scope, field, "invalid-node-address", value);
}

function podCidrsOf(scope: DecodeScope, object: unknown): readonly Cidr[] {
  const single = pathOf(object, "spec", "podCIDR");
  const given = listAt(scope, pathOf(object, "spec", "podCIDRs"), "spec.podCIDRs");
  const values = given.length > 0 || isAbsent(single) ? given : [single];
  const cidrs: Cidr[] = [];
  for (const [index, value] of values.entries()) {
    const cidr = cidrAt(scope, value, `spec.podCIDRs[${index}]`, "invalid-pod-cidr");
    if (cidr !== undefined) cidrs.push(cidr);
  }
  return cidrs.slice();
}

function isBeingDeleted(object: unknown): boolean {
  return !isAbsent(pathOf(object, "metadata", "deletionTimestamp"));
}

function hasDeletionTaint(scope: DecodeScope, object: unknown): boolean {
  const taints = listAt(scope, pathOf(object, "spec", "taints"), "spec.taints");
  return taints.some((taint) => fieldOf(taint, "key") === deletionTaint);
}
