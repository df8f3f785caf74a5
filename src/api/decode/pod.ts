import { familyOf, type IpAddress } from "../../base/ip.ts";
import { sharedIfEmpty } from "../../base/none.ts";
import type { ContainerPort, PodRecord } from "../../endpoint-slices/objects.ts";
import { addressOf, isBlank } from "./addresses.ts";
import { labelTextIn, readEach, type Untrusted } from "./fields.ts";
import type { ObjectIdentity } from "./identity.ts";
import { labelsOf, plainTextIn } from "./labels.ts";
import { optionalPortIn, portNameIn, protocolIn } from "./ports.ts";

const endedPhases: readonly unknown[] = ["Succeeded", "Failed"];

/** Decodes a Pod. `undefined` if the Pod has terminated or has no address yet. */
export function decodePod(object: Untrusted, identity: ObjectIdentity): PodRecord | undefined {
  const metadata = object.field("metadata");
  const spec = object.field("spec");
  const status = object.field("status");
  if (endedPhases.includes(status.valueAt("phase"))) return undefined;
  const addresses = addressesOf(status);
  if (addresses.length === 0) return undefined;
  return {
    name: identity.name,
    uid: plainTextIn(metadata, "uid"),
    labels: labelsOf(metadata.field("labels")),
    addresses,
    nodeName: labelTextIn(spec, "nodeName") ?? "",
    isReady: isReady(status),
    isTerminating: !metadata.field("deletionTimestamp").isAbsent,
    hostname: plainTextIn(spec, "hostname"),
    subdomain: plainTextIn(spec, "subdomain"),
    namedPorts: namedPortsOf(spec),
  };
}

/** The first address of each family. */
function addressesOf(status: Untrusted): readonly IpAddress[] {
  const list = status.field("podIPs").items();
  const given = list.length > 0 ? list.map((entry) => entry.field("ip")) : [status.field("podIP")];
  const families = new Set<string>();
  return readEach(given, (text) => {
    const address = isBlank(text.value) ? undefined : addressOf(text, "invalid-pod-address");
    if (address === undefined || families.has(familyOf(address))) return undefined;
    families.add(familyOf(address));
    return address;
  });
}

function isReady(status: Untrusted): boolean {
  const conditions = status.field("conditions").items();
  const ready = conditions.find((condition) => condition.valueAt("type") === "Ready");
  return ready?.valueAt("status") === "True";
}

/** Named ports of the containers, then those of sidecars (init containers with restartPolicy Always). */
function namedPortsOf(spec: Untrusted): readonly ContainerPort[] {
  const sidecars = spec
    .field("initContainers")
    .items()
    .filter((container) => container.valueAt("restartPolicy") === "Always");
  const containers = [...spec.field("containers").items(), ...sidecars];
  return sharedIfEmpty(containers.flatMap((container) => container.field("ports").each(portOf)));
}

function portOf(given: Untrusted): ContainerPort | undefined {
  const name = portNameIn(given, "name");
  if (name === undefined || name === "") return undefined;
  const protocol = protocolIn(given, "protocol");
  const port = optionalPortIn(given, "containerPort");
  return protocol === undefined || port === 0 ? undefined : { name, protocol, port };
}
