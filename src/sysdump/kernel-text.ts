/** Formats kernel state as text, because /proc shows addresses in hexadecimal form and images have no ipvsadm. */
import { hostPort, ipAddressFromBytes } from "../base/ip.ts";
import type { KernelReaders } from "../kernel/open-readers.ts";
import type { IpSet } from "../state/ip-set.ts";
import { virtualServerKey } from "../state/virtual-server.ts";

/** `TCP 10.96.0.10:80 rr`, followed by its real servers. */
export async function ipvsText(
  ipvs: Pick<KernelReaders["ipvs"], "listVirtualServers" | "listRealServers">,
): Promise<string> {
  const all = await ipvs.listVirtualServers();
  const realServers = await ipvs.listRealServers(all);
  const lines = all.flatMap((one, index) => [
    `${virtualServerKey(one)} ${one.scheduler}, persistence ${one.persistenceTimeoutSeconds} s, flags ${one.flags}`,
    ...(realServers[index] ?? []).map(
      ({ address, port, weight, activeConnections, inactiveConnections }) =>
        `  -> ${hostPort(address, port)} weight ${weight}, ${activeConnections} active, ${inactiveConnections} inactive`,
    ),
  ]);
  return text(lines);
}

/** Formats sets in the style of `ipset save`. Entries of other software's sets are only counted. */
export async function setsText(
  sets: Pick<KernelReaders["ipSets"], "listSets" | "listEntries">,
): Promise<string> {
  const lines: string[] = [];
  for (const set of await sets.listSets()) {
    const { name, type, family = "", maxElements = "", references = "?", elementCount } = set;
    lines.push(
      `create ${name} ${type} ${family} maxelem ${maxElements} # ${elementCount} entries, ${references} references`,
    );
    if (!name.startsWith("KUBE-")) continue;
    for (const entry of await sets.listEntries(set as IpSet)) lines.push(`add ${name} ${entry}`);
  }
  return text(lines);
}

/**
 * Omits the expressions of rules, because rules also have a text form. Set elements are written as addresses, for
 * redaction.
 */
export function rulesetJson(rulesets: object): string {
  const plain = (name: string, value: unknown): unknown => {
    if (name === "expressions") return undefined;
    if (value instanceof Uint8Array) return keyText(value);
    if (value instanceof Map) return Object.fromEntries(value);
    return value instanceof Set ? [...value] : value;
  };
  return `${JSON.stringify(rulesets, plain, 2)}\n`;
}

/** A concatenation has fields of 4 or 16 bytes. A key of 6 bytes is a hardware address. */
function keyText(key: Uint8Array): string {
  if (key.length === 16) return ipAddressFromBytes(key);
  if (key.length === 6) return Buffer.from(key).toString("hex").replace(/..\B/g, "$&:");
  if (key.length % 4 !== 0) return Buffer.from(key).toString("hex");
  const words = Array.from({ length: key.length / 4 }, (_, at) => key.slice(at * 4, at * 4 + 4));
  return words.map(ipAddressFromBytes).join(" . ");
}

/** The routes in /proc/net/route (main table) and /proc/net/ipv6_route (all tables), with readable addresses. */
export function routesText(ipv4: string, ipv6: string): string {
  const first = rowsOf(ipv4).slice(1);
  return text([
    ...first.map(([link = "", destination = "", gateway = "", , , , metric, mask = ""]) => {
      const prefixLength = [...bytesOf(mask)].reduce((sum, byte) => sum + bitsOf(byte), 0);
      const target = `${ipv4Of(destination)}/${prefixLength}`;
      return `${target} via ${ipv4Of(gateway)} dev ${link} metric ${metric}`;
    }),
    ...rowsOf(ipv6).map(
      ([destination = "", prefix = "", , , gateway = "", metric = "", , , , link = ""]) =>
        `${ipv6Of(destination)}/${hexadecimal(prefix)} via ${ipv6Of(gateway)} dev ${link} metric ${hexadecimal(metric)}`,
    ),
  ]);
}

function text(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

function rowsOf(table: string): readonly (readonly string[])[] {
  return table
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => line.trim().split(/\s+/));
}

const bytesOf = (digits: string): Uint8Array => Uint8Array.from(Buffer.from(digits, "hex"));
const bitsOf = (byte: number): number => byte.toString(2).replaceAll("0", "").length;
const hexadecimal = (digits: string): number => Number.parseInt(digits, 16);
/** The kernel prints IPv4 addresses as numbers in the byte order of the machine, which is little-endian. */
const ipv4Of = (digits: string): string => ipAddressFromBytes(bytesOf(digits).toReversed());
const ipv6Of = (digits: string): string => ipAddressFromBytes(bytesOf(digits));
