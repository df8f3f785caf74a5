/** Reads the kernel state of the current network namespace with the operator's tools instead of the project's code. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { get } from "node:http";
import { hasIptables, labRules } from "../support/rules-writer.ts";
import type { KernelState } from "./kernel-state.ts";
import { observeNftables } from "./observe-nftables.ts";
import { addressesForm, ipsetForm, iptablesForm, linkForm, sortedLines } from "./recorded-form.ts";

const iptablesLines = `
echo "==== ipset"; ipset save
echo "==== iptables"; iptables-save
echo "==== ip6tables"; ip6tables-save
`;
/** Uses one process tree for all tools, because starting processes is expensive in a lab kernel. */
const script = `
echo "==== ipvs"; ipvsadm -Sn
echo "==== timeouts"; ipvsadm -l --timeout
${hasIptables ? iptablesLines : ""}
echo "==== ip"; ip -o -force -batch - 2>/dev/null <<END
address show dev kube-ipvs0
link show kube-ipvs0
route show table local proto 75
END
true
`;

/** In the recorded order. */
const sysctls = [
  "net.ipv4.ip_forward",
  "net.ipv4.vs.conntrack",
  "net.ipv4.vs.conn_reuse_mode",
  "net.ipv4.vs.expire_nodest_conn",
  "net.ipv4.vs.expire_quiescent_template",
  "net.ipv4.conf.all.arp_ignore",
  "net.ipv4.conf.all.arp_announce",
  "net.ipv4.conf.all.route_localnet",
] as const;

/** The address at which the recorded proxy was queried for its health-check node ports. */
const nodeAddress = "192.168.10.11";

export async function observeKernel(healthPorts: readonly number[]): Promise<KernelState> {
  const sections = readSections(execFileSync("sh", ["-c", script], { encoding: "utf8" }));
  const section = (name: string): string => sections.get(name) ?? "";
  const { addresses = [], links = [] } = Object.groupBy(section("ip").split("\n"), (line) =>
    / inet6? |^local /.test(line) ? "addresses" : "links",
  );
  const seen = {
    ipvs: sortedLines(section("ipvs")),
    ipset: ipsetForm(section("ipset")),
    iptables: iptablesForm(section("iptables")),
    ip6tables: iptablesForm(section("ip6tables")),
    addresses: addressesForm(addresses.join("\n")),
    link: linkForm(links.join("\n")),
    sysctl: `${readSysctls()}${section("timeouts").trim()}\n`,
  };
  const state = labRules === undefined ? seen : { ...seen, ...(await observeNftables(seen)) };
  if (healthPorts.length === 0) return state;
  const answers = await Promise.all(healthPorts.map(askHealth));
  return { ...state, health: answers.join("") };
}

function readSections(text: string): ReadonlyMap<string, string> {
  const parts = text.split(/^==== (\w+)\n/m).slice(1);
  const sections = new Map<string, string>();
  for (let index = 0; index < parts.length; index += 2) {
    sections.set(parts[index] ?? "", parts[index + 1] ?? "");
  }
  return sections;
}

/** This thread reads the sysctls, because it is in the namespace. */
function readSysctls(): string {
  return sysctls
    .map((name) => `${name} = ${readFileSync(sysctlPath(name), "utf8").trim()}\n`)
    .join("");
}

function sysctlPath(name: string): string {
  return `/proc/sys/${name.replaceAll(".", "/")}`;
}

/** Returns "port body status" with whitespace collapsed. The status is 000 without a body if nothing listens. */
function askHealth(port: number): Promise<string> {
  return new Promise((resolve) => {
    const request = get({ host: nodeAddress, port, agent: false, timeout: 2000 }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        body += chunk;
      });
      response.on("end", () => {
        resolve(`${port} ${body.replace(/\s+/g, " ").trim()} ${response.statusCode}\n`);
      });
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve(`${port}  000\n`));
  });
}
