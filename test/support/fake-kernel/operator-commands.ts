/**
 * Executes commands on the fake kernel. Random walks use them to change a node as an operator or other software would:
 * `ipvsadm -D -t 10.96.0.10:80`, `ipset del KUBE-CLUSTER-IP 10.96.0.10,tcp:80`.
 */
import {
  familyOf,
  hostPrefixLength,
  type IpAddress,
  parseIpAddress,
} from "../../../src/base/ip.ts";
import type { Protocol } from "../../../src/base/protocol.ts";
import type { RealServer } from "../../../src/state/real-server.ts";
import type { SetEntry } from "../../../src/state/set-entry.ts";
import { markServerId, type VirtualServerId } from "../../../src/state/virtual-server.ts";
import type { FakeKernel } from "./fake-kernel.ts";
import { nodeAddress } from "./fake-link.ts";

/** Runs one command and returns whether it succeeded. Throws if the command is unknown. */
export function runCommand(kernel: FakeKernel, command: string): boolean {
  const words = command.split(" ");
  const run = programs[words[0] ?? ""];
  if (run === undefined) throw new Error(`Unknown command: ${command}`);
  try {
    run(kernel, words.slice(1));
    return true;
  } catch (error) {
    if (error instanceof UnknownCommand) throw error;
    return false;
  }
}

class UnknownCommand extends Error {}

type Run = (kernel: FakeKernel, words: readonly string[]) => void;

const programs: Readonly<Record<string, Run>> = { ipvsadm, ipset, ip: iproute, iptables };

const protocols: Readonly<Record<string, Protocol>> = {
  "-t": "TCP",
  "-u": "UDP",
  "--sctp-service": "SCTP",
};
const forwardingMethods: Readonly<Record<string, number>> = { "-m": 0, "-i": 2, "-g": 3 };

/**
 * `-A|-E PLACE -s SCHEDULER`, `-D PLACE`, `-a|-e PLACE -r REAL METHOD -w WEIGHT`, `-d PLACE -r REAL`. A place is
 * `-t 10.96.0.10:80` or `-f 65536 -6`, for example.
 */
function ipvsadm({ ipvs }: FakeKernel, all: readonly string[]): void {
  const family = all[3] === "-6" ? "IPv6" : "IPv4";
  const words = all.filter((word) => word !== "-6");
  const [verb = "", option = "", place = "", , value = ""] = words;
  const virtualServer =
    option === "-f" ? markServerId(family, Number(place)) : serverOf(option, place);
  if (verb === "-D") {
    mustBeThere(ipvs.peek().some(({ virtualServer: held }) => isSame(held, virtualServer)));
    ipvs.interfere({ kind: "virtual-server-remove", before: virtualServer });
  } else if (verb === "-A" || verb === "-E") {
    const persistencePrefixLength = hostPrefixLength(familyOf(virtualServer.address));
    const settings = { scheduler: value, flags: 0, persistenceTimeoutSeconds: 0 };
    const written = { ...virtualServer, ...settings, persistencePrefixLength };
    if (verb === "-E") ipvs.interfere({ kind: "virtual-server-update", after: written });
    else
      ipvs.interfere({
        kind: "virtual-server-create",
        after: written,
      });
  } else if (verb === "-d") {
    const { address, port } = splitPlace(value);
    ipvs.interfere({ kind: "real-server-remove", virtualServer, before: { address, port } });
  } else if (verb === "-a" || verb === "-e") {
    const kind = verb === "-a" ? "real-server-create" : "real-server-update";
    ipvs.interfere({ kind, virtualServer, after: realServerOf(words.slice(4)) });
  } else throw new UnknownCommand(`ipvsadm ${words.join(" ")}`);
}

/** `REAL METHOD -w WEIGHT` */
function realServerOf([place = "", method = "", , weight = ""]: readonly string[]): RealServer {
  const forwardingMethod = forwardingMethods[method] ?? 0;
  return { ...splitPlace(place), forwardingMethod, weight: Number(weight) } as RealServer;
}

/** `add|del SET ENTRY`, `flush [SET]`. */
function ipset({ ipSets }: FakeKernel, [verb = "", name, entry]: readonly string[]): void {
  if (verb === "flush") {
    ipSets.flush(name);
    return;
  }
  const found = ipSets.peek().find(({ set }) => set.name === name);
  if (found === undefined) throw new Error(`The set ${name} does not exist`);
  const kind = verb === "add" ? "entry-add" : "entry-remove";
  ipSets.interfere({ kind, set: found.set, entry: entry as SetEntry });
}

/** `address add|del ADDRESS/LENGTH dev LINK`, `link del kube-ipvs0`, `route del local ADDRESS …`. */
function iproute({ link }: FakeKernel, words: readonly string[]): void {
  const [object = "", verb = "", subject = "", , device = ""] = words;
  if (object === "route" && verb === "del" && subject === "local") {
    link.loseRoute(addressOf(words[3] ?? ""));
    return;
  }
  if (object === "link" && verb === "del" && subject === link.name) {
    link.lose();
    return;
  }
  if (object !== "address") throw new UnknownCommand(`ip ${words.join(" ")}`);
  const [text = "", length = ""] = subject.split("/");
  if (device === link.name) {
    const kind = verb === "add" ? "address-add" : "address-remove";
    link.interfere({ kind, address: addressOf(text) });
    return;
  }
  const index = linkIndexes[device];
  if (index === undefined) throw new Error(`Cannot find device ${device}`);
  const changed = nodeAddress(text, Number(length), index);
  const others = link.peekNode().filter(({ address }) => address !== changed.address);
  const isThere = others.length < link.peekNode().length;
  mustBeThere(isThere === (verb === "del"));
  link.setNodeAddresses(verb === "add" ? [...others, changed] : others);
}

/** Link indexes of the standard node: see fake-link.ts. */
const linkIndexes: Readonly<Record<string, number>> = { eth0: 2, eth1: 3 };

/** `-t TABLE -F CHAIN` */
function iptables({ iptables: tables }: FakeKernel, words: readonly string[]): void {
  const [, table = "", verb = "", chain = ""] = words;
  if (verb !== "-F" || (table !== "nat" && table !== "filter" && table !== "mangle")) {
    throw new UnknownCommand(`iptables ${words.join(" ")}`);
  }
  mustBeThere(tables.peek("IPv4").some((held) => held.table === table && held.name === chain));
  tables.table("IPv4", table).remove(chain, /^/);
}

function serverOf(option: string, place: string): VirtualServerId {
  const protocol = protocols[option];
  if (protocol === undefined) throw new UnknownCommand(`${option} ${place}`);
  return { protocol, ...splitPlace(place) };
}

function isSame(one: VirtualServerId, other: VirtualServerId): boolean {
  return (
    one.protocol === other.protocol && one.address === other.address && one.port === other.port
  );
}

/** `10.96.0.10:80`, `[fd00::1]:80` */
function splitPlace(place: string): { readonly address: IpAddress; readonly port: number } {
  const at = place.lastIndexOf(":");
  const address = addressOf(place.slice(0, at).replace(/^\[(.*)\]$/, "$1"));
  return { address, port: Number(place.slice(at + 1)) };
}

function addressOf(text: string): IpAddress {
  const address = parseIpAddress(text);
  if (address === undefined) throw new UnknownCommand(`No address: ${text}`);
  return address;
}

function mustBeThere(isThere: boolean): void {
  if (!isThere) throw new Error("No such object");
}
