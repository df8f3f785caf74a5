import type { Cidr, IpAddress } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { parseWeight } from "../../base/weight.ts";
import { type NodeRecord, notReadyTaint } from "../objects.ts";
import { cidrOf, parsedAddress } from "./addresses.ts";
import { labelTextIn, readEach, type Untrusted } from "./fields.ts";
import type { ObjectIdentity } from "./identity.ts";

const weightLabel = "kube-ipvs.io/weight";
const zoneLabel = "topology.kubernetes.io/zone";
/** Taint on Nodes that the cluster autoscaler is about to remove. Load balancers should stop using such Nodes. */
const deletionTaint = "ToBeDeletedByClusterAutoscaler";

/** Decodes a Node. Never returns undefined, because every named Node is usable. */
export function decodeNode(object: Untrusted, identity: ObjectIdentity): NodeRecord {
  const labels = object.at("metadata", "labels");
  const zone = labelTextIn(labels, zoneLabel);
  const weight = weightOf(labels.field(weightLabel));
  const taints = object
    .at("spec", "taints")
    .items()
    .map((taint) => taint.valueAt("key"));
  const texts = textsIn(labels);
  const notReadyTaints = taints.flatMap((key, index) => (key === notReadyTaint ? [index] : []));
  return {
    name: identity.name,
    addresses: addressesOf(object.at("status", "addresses")),
    podCidrs: podCidrsOf(object.field("spec")),
    ...(zone === undefined ? {} : { zone }),
    ...(weight === undefined ? {} : { weight }),
    ...(texts.length === 0 ? {} : { labels: Object.fromEntries(texts) }),
    isEligible: !isBeingDeleted(object) && !taints.includes(deletionTaint),
    ...(notReadyTaints.length === 0 ? {} : { notReadyTaints }),
  };
}

/** The labels whose values are texts. Others are ignored. */
function textsIn(labels: Untrusted): readonly (readonly [string, string])[] {
  const { value } = labels;
  if (typeof value !== "object" || value === null) return none;
  return Object.entries(value).flatMap(([name, text]) =>
    typeof text === "string" ? [[labels.intern(name), labels.intern(text)] as const] : [],
  );
}

/** The weight of the Node's endpoints in Services whose weights come from Nodes. */
function weightOf(label: Untrusted): number | undefined {
  if (label.isAbsent) return undefined;
  const weight = typeof label.value === "string" ? parseWeight(label.value) : undefined;
  return weight ?? label.refuse("invalid-node-weight");
}

/** All InternalIP addresses in their order, then all ExternalIP addresses. Hostnames are skipped. */
function addressesOf(list: Untrusted): readonly IpAddress[] {
  const byType = Map.groupBy(list.items(), (entry) => entry.valueAt("type"));
  const entries = ["InternalIP", "ExternalIP"].flatMap((type) => byType.get(type) ?? []);
  return readEach(entries, (entry) => {
    const address = entry.field("address");
    return parsedAddress(address) ?? address.refuse("invalid-node-address");
  });
}

function podCidrsOf(spec: Untrusted): readonly Cidr[] {
  const single = spec.field("podCIDR");
  const given = spec.field("podCIDRs").items();
  const values = given.length > 0 || single.isAbsent ? given : [single];
  return readEach(values, (value) => cidrOf(value, "invalid-pod-cidr"));
}

function isBeingDeleted(object: Untrusted): boolean {
  return !object.at("metadata", "deletionTimestamp").isAbsent;
}
