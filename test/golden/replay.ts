/**
 * Shell lines that create a recorded state in an empty namespace with the operator's tools. They test the recorder
 * itself: a replayed state must be observed exactly as recorded.
 */
import type { KernelState } from "./kernel-state.ts";

/** Converts recorded text to shell lines. `ipset` must precede `iptables`. */
export function replayLines(state: KernelState): readonly string[] {
  return [
    ...addressLines(state.addresses ?? ""),
    ...hereDocument("ipset restore", ipsetLines(state.ipset ?? "")),
    ...hereDocument("ipvsadm -R", linesOf(state.ipvs ?? "")),
    ...hereDocument("iptables-restore", iptablesLines(state.iptables ?? "")),
    ...hereDocument("ip6tables-restore", iptablesLines(state.ip6tables ?? "")),
    ...sysctlLines(state.sysctl ?? ""),
  ];
}

function hereDocument(command: string, lines: readonly string[]): readonly string[] {
  return [`${command} <<'END'`, ...lines, "END"];
}

function addressLines(text: string): readonly string[] {
  const addresses = linesOf(text).map((line) => line.split(/ +/)[2] ?? "");
  return [
    "ip link add kube-ipvs0 txqueuelen 0 type dummy",
    ...addresses.map((address) => `ip address add ${address} dev kube-ipvs0`),
  ];
}

/** Sets first, then entries. Byte order in the recording puts entries first. */
function ipsetLines(text: string): readonly string[] {
  const isSet = (line: string): boolean => line.startsWith("create");
  const lines = linesOf(text);
  return [...lines.filter(isSet), ...lines.filter((line) => !isSet(line))];
}

/** All chains of a table before its rules, and a COMMIT after them. */
function iptablesLines(text: string): readonly string[] {
  const tables = text.split(/^(?=\*)/m).filter((table) => table !== "");
  return tables.flatMap((table) => {
    const [name = "", ...lines] = linesOf(table);
    const isChain = (line: string): boolean => line.startsWith(":");
    const rules = lines.filter((line) => !isChain(line));
    return [name, ...lines.filter(isChain), ...rules, "COMMIT"];
  });
}

function sysctlLines(text: string): readonly string[] {
  return linesOf(text).map((line) => {
    const [name = "", value = ""] = line.split(" = ");
    if (value !== "") return `echo ${value} > /proc/sys/${name.replaceAll(".", "/")}`;
    return `ipvsadm --set ${line.replace(/^Timeout .*: /, "")}`;
  });
}

function linesOf(text: string): readonly string[] {
  return text.split("\n").filter((line) => line !== "");
}
