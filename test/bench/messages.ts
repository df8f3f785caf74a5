/** Writes a cluster to a file as netlink messages for limit.c, and as input for the usual tools. */
import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { ipFamilies } from "../../src/base/ip.ts";
import { groupChanges } from "../../src/kernel/ipset/messages.ts";
import { type SetRequest, setRequestKind } from "../../src/kernel/ipset/requests.ts";
import { encodeChange } from "../../src/kernel/ipvs/codec.ts";
import type { EntryChange, IpvsChange } from "../../src/kernel/kernel.ts";
import { type BindingRequest, bindingRequestKind } from "../../src/kernel/link/binding.ts";
import { encodeDatagram } from "../../src/netlink/batch.ts";
import { MessageWriter } from "../../src/netlink/message.ts";
import { protocols } from "../../src/netlink/netlink-package.ts";
import type { RequestKind } from "../../src/netlink/request.ts";
import type { DesiredState } from "../../src/plan/desired-state.ts";
import { setsFor } from "../../src/plan/sets.ts";
import { entriesText, ipvsText } from "../support/plan-text.ts";

const linkName = "kube-ipvs0";

/**
 * The netlink messages of a first sync for sets, entries, addresses and virtual servers. Omits rules and the link.
 */
export function writeMessages(path: string, desired: DesiredState): void {
  const file = openSync(path, "w");
  const creations = ipFamilies
    .flatMap(setsFor)
    .map((set): SetRequest => ({ command: "create", set, mustBeNew: true }));
  const additions = groupChanges(entryChanges(desired)).messages.map(({ request }) => request);
  append(file, { protocol: protocols.netfilter, kind: setRequestKind }, [
    ...creations,
    ...additions,
  ]);
  append(file, { protocol: protocols.route, kind: bindingRequestKind }, addressRequests(desired));
  append(file, { protocol: protocols.generic, kind: ipvsKind }, ipvsChanges(desired));
  closeSync(file);
}

/** limit.c fills in the family number. */
const ipvsKind: RequestKind<IpvsChange> = {
  type: () => 0,
  flags: () => 0,
  encode: encodeChange,
  describe: () => ({ operation: "write", subject: "prepared message" }),
};

function append<T>(
  file: number,
  { protocol, kind }: { readonly protocol: number; readonly kind: RequestKind<T> },
  requests: readonly T[],
): void {
  const writer = new MessageWriter();
  for (let first = 0; first < requests.length; ) {
    const place = { first, firstSequence: first + 1 };
    const datagram = encodeDatagram(writer, kind, requests, place);
    const [unsendable] = datagram.unsendable;
    if (unsendable !== undefined) throw unsendable.error;
    writeSync(file, new Uint8Array(new Uint32Array([protocol, writer.length]).buffer));
    writeSync(file, writer.written);
    first += datagram.requests.length;
  }
}

function entryChanges(desired: DesiredState): readonly EntryChange[] {
  return ipFamilies
    .flatMap(setsFor)
    .flatMap((set) =>
      [...desired.entries(set.name)].map(
        (entry): EntryChange => ({ kind: "entry-add", set, entry }),
      ),
    );
}

function addressRequests(desired: DesiredState): readonly BindingRequest[] {
  return [...desired.addresses()].map((address) => ({
    kind: "add",
    form: "address",
    address,
    linkName,
    linkIndex: 0,
  }));
}

function ipvsChanges(desired: DesiredState): readonly IpvsChange[] {
  return [...desired.virtualServerKeys()].flatMap((key): readonly IpvsChange[] => {
    const planned = desired.virtualServer(key);
    if (planned === undefined) return [];
    const { virtualServer, realServers } = planned;
    return [
      { kind: "virtual-server-create", after: virtualServer },
      ...realServers.map(
        (realServer): IpvsChange => ({
          kind: "real-server-create",
          virtualServer,
          after: realServer,
        }),
      ),
    ];
  });
}

/** Standard input for `ipvsadm -R`, `ipset restore` and `ip -batch -`, with only every `addressStep`-th address. */
export function writeToolInput(
  paths: { readonly ipvsadm: string; readonly ipset: string; readonly ip: string },
  desired: DesiredState,
  addressStep = 1,
): void {
  const sets = ipFamilies
    .flatMap((family) => setsFor(family).map((set) => ({ family, set })))
    .map(({ family, set: { name, type, maxElements } }) => {
      if (type === "bitmap:port") return `create ${name} ${type} range 0-65535`;
      const inet = family === "IPv4" ? "inet" : "inet6";
      return `create ${name} ${type} family ${inet} hashsize 1024 maxelem ${maxElements}`;
    });
  writeFileSync(paths.ipset, lines([...sets, ...entriesText(desired)]));
  writeFileSync(paths.ipvsadm, lines(ipvsText(desired)));
  const addresses = [...desired.addresses()]
    .filter((_, at) => at % addressStep === 0)
    .map((address) => `addr add ${address}/32 dev ${linkName}`);
  writeFileSync(paths.ip, lines(addresses));
}

function lines(texts: readonly string[]): string {
  return `${texts.join("\n")}\n`;
}
