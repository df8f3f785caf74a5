/** What the kernel holds and what it should hold, as text to compare: IPv4, of the present network namespace. */
import { desiredFrom } from "./many-services.ts";
import { shell } from "./netns/network-namespace.ts";
import { nodeAddress, podGateway } from "./node-network.ts";
import type { ApiObject } from "./objects.ts";
import { entriesText, ipvsText } from "./plan-text.ts";
import { ip } from "./records.ts";

export interface KernelText {
  /** Virtual and real servers, as `ipvsadm -Sn` prints them. */
  readonly servers: string;
  /** Entries of sets, as `ipset save` prints them. */
  readonly entries: string;
  /** Addresses of kube-ipvs0. */
  readonly addresses: string;
}

/** What these objects plan to on the node of `node-network.ts`. */
export function plannedText(objects: Iterable<ApiObject>): KernelText {
  const desired = desiredFrom(objects, [ip(nodeAddress), ip(podGateway)]);
  return {
    servers: ipvsText(desired).join("\n"),
    entries: entriesText(desired).join("\n"),
    addresses: [...desired.addresses()].sort().join("\n"),
  };
}

/** What is there. */
export function observedText(): KernelText {
  return {
    servers: sortedLines("ipvsadm -Sn"),
    entries: sortedLines("ipset save | grep ^add || true"),
    addresses: sortedLines("ip -o -4 addr show dev kube-ipvs0 | sed 's/.*inet //; s/\\/32.*//'"),
  };
}

export function isSameText(one: KernelText, other: KernelText): boolean {
  return (
    one.servers === other.servers &&
    one.entries === other.entries &&
    one.addresses === other.addresses
  );
}

function sortedLines(command: string): string {
  return shell(command)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.trimEnd())
    .sort()
    .join("\n");
}
