/** Third-party damage to kube-ipvs's objects in the kernel, as operator commands. Pure. */
import fc from "fast-check";
import type { KernelState } from "../../golden/kernel-state.ts";

export type DamageKind =
  | "remove-virtual-server"
  | "remove-real-server"
  | "change-weight"
  | "change-scheduler"
  | "add-real-server"
  | "add-entry"
  | "remove-entry"
  | "remove-node-port-entry"
  | "flush-sets"
  | "add-address"
  | "remove-address"
  | "remove-link"
  | "flush-chain";

export interface Damage {
  readonly kind: DamageKind;
  /** The damaged object's index, modulo the number of objects. */
  readonly nth: number;
}

/** The commands for one kind of damage, given the kernel state. Empty if there is nothing to damage. */
type Choices = (state: KernelState) => readonly string[];

const choicesOf: Readonly<Record<DamageKind, Choices>> = {
  "remove-virtual-server": (state) => places(state).map((place) => `ipvsadm -D ${place}`),
  "remove-real-server": (state) =>
    reals(state).map(({ place, real }) => `ipvsadm -d ${place} -r ${real}`),
  "change-weight": (state) =>
    reals(state).map(({ place, real }) => `ipvsadm -e ${place} -r ${real} -m -w 7`),
  "change-scheduler": (state) => places(state).map((place) => `ipvsadm -E ${place} -s lc`),
  "add-real-server": (state) =>
    places(state).map((place) => {
      const real = /\[|-6/.test(place) ? "[fd00:99::9]:99" : "10.99.9.9:99";
      return `ipvsadm -a ${place} -r ${real} -m -w 1`;
    }),
  "add-entry": () => ["ipset add KUBE-CLUSTER-IP 10.9.9.9,tcp:80"],
  "remove-entry": (state) => entries(state).map((entry) => `ipset del ${entry}`),
  "remove-node-port-entry": (state) =>
    entries(state)
      .filter((entry) => entry.startsWith("KUBE-NODE-PORT-TCP "))
      .map((entry) => `ipset del ${entry}`),
  "flush-sets": () => ["ipset flush"],
  "add-address": () => ["ip address add 10.9.9.9/32 dev kube-ipvs0"],
  "remove-address": (state) =>
    lines(state.addresses).map((line) => {
      const [first, address, last] = line.split(/ +/);
      if (first === "local") return `ip route del local ${address} dev lo table local proto 75`;
      return `ip address del ${last} dev kube-ipvs0`;
    }),
  "remove-link": () => ["ip link del kube-ipvs0"],
  "flush-chain": (state) =>
    chains(state).map(({ table, chain }) => `iptables -t ${table} -F ${chain}`),
};

/** Kinds of damage after which the sets or the link alone do not show which virtual servers are kube-ipvs's. */
export const ownershipKinds: ReadonlySet<DamageKind> = new Set([
  "remove-entry",
  "remove-node-port-entry",
  "flush-sets",
  "add-address",
  "remove-address",
  "remove-link",
]);

export const damages: fc.Arbitrary<Damage> = fc.record({
  kind: fc.constantFrom(...(Object.keys(choicesOf) as DamageKind[])),
  nth: fc.nat(999),
});

/**
 * The command, or undefined if there is no object of this kind. `isOurs` returns whether an IPVS line is kube-ipvs's.
 */
export function damageCommand(
  { kind, nth }: Damage,
  state: KernelState,
  isOurs: (line: string) => boolean,
): string | undefined {
  const ipvs = lines(state.ipvs).filter(isOurs).join("\n");
  const choices = choicesOf[kind]({ ...state, ipvs });
  return choices[nth % Math.max(1, choices.length)];
}

/** `-t 10.96.0.10:80`, or `-f 65536` and `-f 65536 -6` for a firewall mark. */
export function placeOf(line: string): string {
  return /^-\S+ (-\S+ \S+(?: -6)?)/.exec(line)?.[1] ?? "";
}

export function lines(text: string | undefined): readonly string[] {
  return (text ?? "").split("\n").filter((line) => line !== "");
}

function places(state: KernelState): readonly string[] {
  return lines(state.ipvs)
    .filter((line) => line.startsWith("-A"))
    .map(placeOf);
}

function reals(state: KernelState): readonly { readonly place: string; readonly real: string }[] {
  return lines(state.ipvs)
    .filter((line) => line.startsWith("-a"))
    .map((line) => ({ place: placeOf(line), real: / -r (\S+)/.exec(line)?.[1] ?? "" }));
}

/** `KUBE-CLUSTER-IP 10.96.0.10,tcp:80` */
function entries(state: KernelState): readonly string[] {
  return lines(state.ipset)
    .filter((line) => line.startsWith("add KUBE-"))
    .map((line) => line.slice("add ".length));
}

/** kube-ipvs's IPv4 chains, by table. */
function chains(state: KernelState): readonly { readonly table: string; readonly chain: string }[] {
  let table = "";
  return lines(state.iptables).flatMap((line) => {
    if (line.startsWith("*")) table = line.slice(1);
    if (!line.startsWith(":KUBE-")) return [];
    return [{ table, chain: line.slice(1).split(" ")[0] ?? "" }];
  });
}
