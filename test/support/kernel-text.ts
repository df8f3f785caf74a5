/** Observed and desired kernel state as text for comparison: IPv4, in the current network namespace. */
import { spawnSync } from "node:child_process";
import { type Abilities, desiredFrom } from "./many-services.ts";
import { nodeAddress, podGateway } from "./node-network.ts";
import type { ApiObject } from "./objects.ts";
import { entriesText, ipvsText } from "./plan-text.ts";
import { ip } from "./records.ts";
import { labRules } from "./rules-writer.ts";

export interface KernelText {
  /** Virtual and real servers, as `ipvsadm -Sn` prints them. */
  readonly servers: string;
  /** Set entries, as `ipset save` prints them. */
  readonly entries: string;
  /** Addresses of kube-ipvs0. */
  readonly addresses: string;
}

/** The planned state for these objects on the node in `node-network.ts`, which may have other addresses. */
export function plannedText(
  objects: Iterable<ApiObject>,
  others: readonly string[] = [],
  abilities?: Abilities,
): KernelText {
  const nodeAddresses = [nodeAddress, podGateway, ...others].map(ip);
  const desired = desiredFrom(objects, nodeAddresses, abilities);
  return {
    servers: ipvsText(desired).join("\n"),
    entries: entriesText(desired).join("\n"),
    addresses: [...desired.addresses()].sort().join("\n"),
  };
}

/** The observed state. */
export function observedText(): KernelText {
  return { servers: serversText(), entries: entriesThere(), addresses: addressesText() };
}

/** Whether the kernel contains the whole state. Stops at the first difference. */
export function isInKernel({ servers, entries, addresses }: KernelText): boolean {
  return servers === serversText() && addresses === addressesText() && entries === entriesThere();
}

function serversText(): string {
  return sortedLines(run("ipvsadm", "-Sn"));
}

function entriesThere(): string {
  if (labRules === "nftables") {
    return sortedLines(nftEntries(run("nft", "list", "table", "ip", "kube-ipvs")));
  }
  return sortedLines(run("ipset", "save").filter((line) => line.startsWith("add ")));
}

/** In the format of `ipset save`, without comments: `10.96.0.1 . tcp . 443` is the entry `10.96.0.1,tcp:443`. */
function nftEntries(lines: readonly string[]): readonly string[] {
  const sets = lines
    .join(" ")
    .split(/\bset (?=KUBE-)/)
    .slice(1);
  return sets.flatMap((set) => {
    const [name = ""] = set.split(" ");
    const elements = /elements = \{([^}]*)\}/.exec(set)?.[1] ?? "";
    return elements
      .replaceAll(/ comment "[^"]*"/g, "")
      .split(",")
      .map((element) => {
        const [address = "", protocol, port, ...rest] = element.trim().split(" . ");
        const entry = protocol === undefined ? address : `${address},${protocol}:${port}`;
        return element.trim() === "" ? "" : `add ${name} ${[entry, ...rest].join(",")}`;
      });
  });
}

/** `4: kube-ipvs0    inet 10.96.0.7/32 scope …` */
function addressesText(): string {
  const lines = run("ip", "-o", "-4", "addr", "show", "dev", "kube-ipvs0");
  return sortedLines(lines.flatMap((line) => /inet ([^/]*)/.exec(line)?.[1] ?? []));
}

/**
 * Lines of a program's output. Empty if the program fails, for example because the link does not exist. Starts no
 * shell, which would double the time.
 */
function run(program: string, ...argv: readonly string[]): readonly string[] {
  const { stdout } = spawnSync(program, argv, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  return stdout.split("\n");
}

function sortedLines(lines: readonly string[]): string {
  return lines
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .sort()
    .join("\n");
}
