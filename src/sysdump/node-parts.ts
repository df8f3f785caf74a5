/** The parts of an archive that are read from this node: kernel state, settings, rules, metrics and log. */
import { closeSync, fstatSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { attempt } from "../base/attempt.ts";
import type { Clock } from "../base/clock.ts";
import { hostPort, ipFamilies, wildcardAddresses } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import { type KernelReaders, openReaders } from "../kernel/open-readers.ts";
import { runProgram } from "../kernel/run-program.ts";
import type { Part } from "./collect.ts";
import { ipvsText, routesText, rulesetJson, setsText } from "./kernel-text.ts";

const programTimeoutMs = 10_000;
const logBytes = 1024 * 1024;

const nodeFiles = [
  ...["version", "cmdline", "uptime", "loadavg", "meminfo", "modules"],
  ...["net/dev", "net/snmp", "net/netstat", "net/stat/nf_conntrack", "net/ip_vs_stats"],
].map((name) => `/proc/${name}`);

/** Paths below /proc/sys. `*` stands for each file or folder. */
const settings = [
  ...["net/ipv4/vs/*", "net/netfilter/nf_conntrack_*", "net/bridge/*", "net/core/somaxconn"],
  ...["net/ipv4/ip_forward", "net/ipv4/ip_local_port_range", "net/ipv4/ip_local_reserved_ports"],
  ...["rp_filter", "route_localnet", "arp_ignore", "arp_announce", "forwarding"].map(
    (name) => `net/ipv4/conf/*/${name}`,
  ),
  ...["net/ipv6/conf/*/forwarding", "net/ipv6/conf/*/disable_ipv6", "fs/file-nr"],
];

/** `daemonPid` finds the daemon's process. */
export function nodeParts(
  config: Pick<Config, "metricsBindAddress">,
  clock: Clock,
  daemonPid: () => Promise<number | undefined>,
): readonly Part[] {
  const read = (name: string, text: (readers: KernelReaders) => Promise<string>): Part => ({
    name,
    read: async () => {
      const readers = openReaders(clock);
      try {
        return await text(readers);
      } finally {
        readers.close();
      }
    },
  });
  const saved = ["iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"];
  return [
    { name: "node.txt", read: async () => nodeFiles.map(fileText).join("\n") },
    { name: "sysctls.txt", read: async () => settings.flatMap(settingLines).join("\n") },
    { name: "metrics.txt", read: () => metricsText(config) },
    read("ipvs.txt", ({ ipvs }) => ipvsText(ipvs)),
    read("ipsets.txt", ({ ipSets }) => setsText(ipSets)),
    read("nftables-sets.txt", ({ nftSets }) => setsText(nftSets)),
    ...saved.map((name) => programPart(`${name}-save.txt`, `${name}-save`)),
    programPart("nft-ruleset.txt", "nft", "list", "ruleset"),
    read("nftables.json", async ({ nftRules, openRules }) => {
      const own = await openRules("nftables");
      const [IPv4, IPv6] = await Promise.all(ipFamilies.map((family) => own.observe(family)));
      return rulesetJson({ own: { IPv4, IPv6 }, others: await nftRules.read(false) });
    }),
    read("addresses.txt", async ({ link }) => {
      const all = await link.listAddresses();
      return all
        .map((one) => `link ${one.linkIndex}  ${one.address}/${one.prefixLength}`)
        .join("\n");
    }),
    {
      name: "routes.txt",
      read: async () =>
        routesText(fileOf("/proc/net/route") ?? "", fileOf("/proc/net/ipv6_route") ?? ""),
    },
    programPart("ip-route.txt", "ip", "route", "show", "table", "all"),
    programPart("ip6-route.txt", "ip", "-6", "route", "show", "table", "all"),
    programPart("ip-rule.txt", "ip", "rule"),
    programPart("ip6-rule.txt", "ip", "-6", "rule"),
    { name: "log.txt", read: async () => logText(await daemonPid()) },
  ];
}

function programPart(name: string, program: string, ...args: readonly string[]): Part {
  return {
    name,
    read: async () => {
      const call = { program, arguments: args, timeoutMs: programTimeoutMs };
      const { exitCode, output, errorOutput } = await runProgram(call);
      if (exitCode !== 0) throw new Error(`${program}: exit code ${exitCode}: ${errorOutput}`);
      return output;
    },
  };
}

/** Reads a file. Undefined if the kernel does not have it. */
function fileOf(path: string): string | undefined {
  return attempt(() => readFileSync(path, "utf8"));
}

function fileText(path: string): string {
  return `== ${path}\n${fileOf(path) ?? "(missing)\n"}`;
}

/** Returns lines of the form `path = value`. */
function settingLines(pattern: string): readonly string[] {
  return expanded("/proc/sys", pattern.split("/")).flatMap((path) => {
    const value = fileOf(path);
    return value === undefined ? [] : [`${path.slice("/proc/sys/".length)} = ${value.trim()}`];
  });
}

function expanded(folder: string, [first, ...rest]: readonly string[]): readonly string[] {
  if (first === undefined) return [folder];
  if (!first.endsWith("*")) return expanded(`${folder}/${first}`, rest);
  // If the module is not loaded, there is no folder.
  return (attempt(() => readdirSync(folder)) ?? [])
    .filter((name) => name.startsWith(first.slice(0, -1)))
    .flatMap((name) => expanded(`${folder}/${name}`, rest));
}

async function metricsText({
  metricsBindAddress,
}: Pick<Config, "metricsBindAddress">): Promise<string> {
  const { address, port } = metricsBindAddress;
  const isWildcard = Object.values(wildcardAddresses).includes(address);
  const host = isWildcard ? "localhost" : address;
  const response = await fetch(`http://${hostPort(host, port)}/metrics`);
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  return await response.text();
}

/** The end of the file to which the daemon logs. */
function logText(pid: number | undefined): string {
  if (pid === undefined) throw new Error("no daemon is running");
  const file = openSync(`/proc/${pid}/fd/2`, "r");
  try {
    const facts = fstatSync(file);
    if (!facts.isFile()) throw new Error("the daemon does not log to a file; use kubectl logs");
    const length = Math.min(facts.size, logBytes);
    const bytes = Buffer.alloc(length);
    const read = readSync(file, bytes, 0, length, facts.size - length);
    return bytes.toString("utf8", 0, read);
  } finally {
    closeSync(file);
  }
}
