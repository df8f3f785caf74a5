/** Packets to victims, to the node's addresses and to other hosts, on a node with a hostile tenant. */
import assert from "node:assert/strict";
import type { ListenerFact } from "../../src/answer/answers.ts";
import { familyOf, hostPrefixLength, ipFamilies, wildcardAddresses } from "../../src/base/ip.ts";
import type { ModeView } from "../../src/daemon/operator/daemon-view.ts";
import { follow } from "../../src/explain/packet/follow.ts";
import type { ListedChains, ListedRule } from "../../src/explain/packet/node-state.ts";
import type { Packet } from "../../src/explain/packet/packet.ts";
import type { PacketPath } from "../../src/explain/packet/path.ts";
import type { ChainKey } from "../../src/state/rule.ts";
import type { FakeKernel } from "../support/fake-kernel/fake-kernel.ts";
import { nodeStateOf } from "../support/fake-kernel/node-state-of.ts";
import { ip } from "../support/records.ts";
import {
  apiServer,
  apiServerPort,
  metadataAddress,
  nodeAddresses,
  nodePorts,
  otherNodeAddresses,
  victimClusterIps,
  victimCount,
  victimEndpoints,
  victimExternalIps,
  victimNodePort,
  victimPort,
} from "./hostile-tenant.ts";

const clients = { IPv4: ip("192.0.2.7"), IPv6: ip("2001:db8:2::7") } as const;

function packetTo(destination: string, port: number): Packet {
  const address = ip(destination);
  const family = familyOf(address);
  return {
    ...{ family, protocol: "TCP", source: clients[family], destination: address, port },
    ...{ isFromNode: false, inLink: "eth0", isBridged: false },
  };
}

/** One packet for each way to reach each victim. */
const toVictims: readonly Packet[] = Array.from({ length: victimCount }, (_, index) => [
  ...victimClusterIps(index).map((address) => packetTo(address, victimPort)),
  ...victimExternalIps(index).map((address) => packetTo(address, victimPort)),
  ...nodeAddresses.map((address) => packetTo(address, victimNodePort(index))),
]).flat();

/** Destinations that must not serve a Service. */
const toOthers: readonly Packet[] = [
  ...nodeAddresses.flatMap((address) => nodePorts.map((port) => packetTo(address, port))),
  packetTo(apiServer, apiServerPort),
  ...otherNodeAddresses.flatMap((address) =>
    [victimPort, ...nodePorts].map((port) => packetTo(address, port)),
  ),
  packetTo(metadataAddress, victimPort),
  ...Array.from({ length: victimCount }, (_, index) => victimEndpoints(index))
    .flat()
    .map((address) => packetTo(address, victimPort)),
];

export class TenantPackets {
  readonly #kernel: FakeKernel;
  readonly #view: ModeView;
  readonly #before: readonly string[];

  /** Records the victims' current answers, which every later step must preserve. */
  constructor(kernel: FakeKernel, view: ModeView) {
    this.#kernel = kernel;
    this.#view = view;
    this.#before = this.#ends(toVictims);
    for (const [index, end] of this.#before.entries())
      assert.match(end, /^(?:balanced|taken) \S+$/, packetText(toVictims[index] as Packet));
  }

  /**
   * Throws if a victim's client gets a different answer, or if a packet to the node or to other hosts reaches an
   * endpoint.
   */
  check(): void {
    const ends = this.#ends([...toVictims, ...toOthers]);
    assert.deepEqual(ends.slice(0, toVictims.length), this.#before, "victims are served as before");
    for (const [index, packet] of toOthers.entries()) {
      const end = ends[toVictims.length + index] ?? "";
      assert.doesNotMatch(end, /^(?:balanced|taken|unheard)/, packetText(packet));
    }
  }

  #ends(packets: readonly Packet[]): readonly string[] {
    const serviceSockets = this.#serviceSockets();
    const states = new Map(
      ipFamilies.map((family) => {
        const state = nodeStateOf(this.#kernel, family);
        return [
          family,
          { ...state, serviceSockets, chains: new NarrowedChains(state.chains) },
        ] as const;
      }),
    );
    return packets.map((packet) => {
      const state = states.get(packet.family) ?? assert.fail();
      state.chains.narrow(packet);
      return endText(follow(packet, state));
    });
  }

  #serviceSockets(): readonly ListenerFact[] {
    const view = this.#view;
    if (view.mode !== "userspace") return [];
    return view.open().map(({ wanted, localPorts }) => {
      const { family, protocol, backends } = wanted;
      return { family, protocol, host: wildcardAddresses[family], ...localPorts, backends };
    });
  }
}

/** Chains that omit rules about other destinations, because there may be ten thousand rules and hundreds of packets. */
class NarrowedChains extends Map<ChainKey, readonly ListedRule[]> {
  readonly #whole: ListedChains;
  readonly #places = new Map<string, ReadonlyMap<string, readonly number[]>>();
  #cidr = "";

  constructor(whole: ListedChains) {
    super();
    this.#whole = whole;
  }

  /** Selects the rules that a packet to this destination passes. */
  narrow({ destination, family }: Packet): void {
    this.#cidr = `${destination}/${hostPrefixLength(family)}`;
  }

  override get(key: ChainKey): readonly ListedRule[] | undefined {
    const rules = this.#whole.get(key);
    if (rules === undefined || rules.length <= fewRules) return rules;
    const places = this.#places.get(key) ?? placesOf(rules);
    this.#places.set(key, places);
    const about = [...(places.get("") ?? []), ...(places.get(this.#cidr) ?? [])];
    return about.sort((one, other) => one - other).flatMap((at) => rules[at] ?? []);
  }
}

const fewRules = 32;

/** Rule positions by destination. The key "" has all other rules. */
function placesOf(rules: readonly ListedRule[]): ReadonlyMap<string, readonly number[]> {
  const places = new Map<string, number[]>();
  for (const [at, { rule }] of rules.entries()) {
    const match = rule?.matches.find((one) => one.kind === "destination");
    const isOneAddress =
      match !== undefined && match.isNegated !== true && /\/(?:32|128)$/.test(match.cidr);
    const key = isOneAddress ? match.cidr : "";
    const known = places.get(key);
    if (known === undefined) places.set(key, [at]);
    else known.push(at);
  }
  return places;
}

/** For example `balanced 10.244.9.1:8080`. Lists all endpoints, sorted. */
function endText({ end }: PacketPath): string {
  if (end.kind !== "balanced" && end.kind !== "taken") return end.kind;
  const places = end.endpoints.map(
    ({ realServer: { address, port }, fate }) =>
      `${address}:${port}${fate === "delivered" ? "" : fate}`,
  );
  return `${end.kind} ${places.toSorted().join(",")}`;
}

function packetText({ destination, port }: Packet): string {
  return `${destination} ${port}`;
}
