import { familyOf, type IpAddress } from "../../base/ip.ts";
import { sharedIfEmpty } from "../../base/none.ts";
import type { ContainerPort, PodRecord } from "../../endpoint-slices/objects.ts";
import { addressAt, isBlank } from "./addresses.ts";
import { type DecodeScope, fieldOf, isAbsent, labelTextAt, listAt, pathOf } from "./fields.ts";
import type { ObjectIdentity } from "./identity.ts";
import { labelsOf, plainTextOf } from "./labels.ts";
import { optionalPortAt, portNameAt, protocolAt } from "./ports.ts";

const endedPhases: readonly unknown[] = ["Succeeded", "Failed"];

/** Narrows a Pod; `undefined` for one that has ended, or has no address yet. */
export function decodePod(
  scope: DecodeScope,
  identity: ObjectIdentity,
  object: unknown,
): PodRecord | undefined {
  const { status, spec } = { status: fieldOf(object, "status"), spec: fieldOf(object, "spec") };
  if (endedPhases.includes(fieldOf(status, "phase"))) return undefined;
  const addresses = addressesOf(scope, status);
  if (addresses.length === 0) return undefined;
  return {
    name: identity.name,
    uid: plainTextOf(scope, pathOf(object, "metadata", "uid")),
    labels: labelsOf(scope, pathOf(object, "metadata", "labels")),
    addresses,
    nodeName: labelTextAt(scope, fieldOf(spec, "nodeName"), "spec.nodeName") ?? "",
    isReady: isReady(scope, status),
    isTerminating: !isAbsent(pathOf(object, "metadata", "deletionTimestamp")),
    hostname: plainTextOf(scope, fieldOf(spec, "hostname")),
    subdomain: plainTextOf(scope, fieldOf(spec, "subdomain")),
    namedPorts: namedPortsOf(scope, spec),
  };
}

/** The first address of each family. */
function addressesOf(scope: DecodeScope, status: unknown): readonly IpAddress[] {
  const list = listAt(scope, fieldOf(status, "podIPs"), "status.podIPs");
  const values = list.length > 0 ? list.map((entry) => fieldOf(entry, "ip")) : [single(status)];
  const addresses: IpAddress[] = [];
  for (const [index, value] of values.entries()) {
    if (isBlank(value)) continue;
    const field = list.length > 0 ? `status.podIPs[${index}].ip` : "status.podIP";
    const address = addressAt(scope, value, field, "invalid-pod-address");
    if (address === undefined) continue;
    const isSecond = addresses.some((known) => familyOf(known) === familyOf(address));
    if (!isSecond) addresses.push(address);
  }
  return addresses.slice();
}

function single(status: unknown): unknown {
  return fieldOf(status, "podIP");
}

function isReady(scope: DecodeScope, status: unknown): boolean {
  const conditions = listAt(scope, fieldOf(status, "conditions"), "status.conditions");
  const ready = conditions.find((condition) => fieldOf(condition, "type") === "Ready");
  return fieldOf(ready, "status") === "True";
}

/** Of containers, then of init containers that go on running beside them. */
function namedPortsOf(scope: DecodeScope, spec: unknown): readonly ContainerPort[] {
  const containers = listAt(scope, fieldOf(spec, "containers"), "spec.containers");
  const sidecars = listAt(scope, fieldOf(spec, "initContainers"), "spec.initContainers");
  return sharedIfEmpty([
    ...containers.flatMap((each, index) => portsOf(scope, each, `spec.containers[${index}]`)),
    ...sidecars.flatMap((each, index) =>
      fieldOf(each, "restartPolicy") === "Always"
        ? portsOf(scope, each, `spec.initContainers[${index}]`)
        : [],
    ),
  ]);
}

function portsOf(scope: DecodeScope, container: unknown, of: string): readonly ContainerPort[] {
  const ports = listAt(scope, fieldOf(container, "ports"), `${of}.ports`);
  return ports.flatMap((value, index): readonly ContainerPort[] => {
    const field = `${of}.ports[${index}]`;
    const name = portNameAt(scope, fieldOf(value, "name"), `${field}.name`);
    if (name === undefined || name === "") return [];
    const protocol = protocolAt(scope, fieldOf(value, "protocol"), `${field}.protocol`);
    const port = optionalPortAt(scope, fieldOf(value, "containerPort"), `${field}.containerPort`);
    return protocol === undefined || port === 0 ? [] : [{ name, protocol, port }];
  });
}
