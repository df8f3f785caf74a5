/**
 * The predictions of `kube-ipvs explain` for every row from the plan and the kernel state, for comparison with the
 * actual outcomes.
 */

import type { Destination, PlanFacts } from "../../src/answer/answers.ts";
import type { Explanation } from "../../src/answer/explanation.ts";
import { systemClock } from "../../src/base/clock.ts";
import {
  familyOf,
  hostPrefixLength,
  type IpAddress,
  type IpFamily,
  parseIpAddress,
} from "../../src/base/ip.ts";
import type { DaemonView, ModeView } from "../../src/daemon/operator/daemon-view.ts";
import { planFacts } from "../../src/daemon/operator/plan-facts.ts";
import { explainOne, explainWith } from "../../src/explain/explain.ts";
import type { From } from "../../src/explain/origins.ts";
import { noConnections } from "../../src/explain/read/read-connections.ts";
import { type FamilyState, readFamilies } from "../../src/explain/read/read-families.ts";
import { readNetwork } from "../../src/explain/read/read-network.ts";
import { type KernelReaders, openReaders } from "../../src/kernel/open-readers.ts";
import type { Routes } from "../../src/kernel/route.ts";
import { loopbackAddresses } from "../../src/plan/loopback-node-ports.ts";
import { type Column, type ColumnName, columnName, type Path } from "./path.ts";
import { type Addresses, branch, client, guests, node, node2, ownerOf } from "./places.ts";
import { destinationIn, ownPort } from "./services.ts";

/** Predictions by column, in the matrix's words. */
export type Explained = ReadonlyMap<ColumnName, string>;

export interface Explainer {
  /** Reads what a section may have changed: settings and routes. */
  explain(
    paths: readonly Path[],
    columns: readonly Column[],
  ): Promise<ReadonlyMap<Path, Explained>>;
}

/** Reads the plan for all Services. The daemon may be stopped afterwards. */
export async function readPlan(view: DaemonView): Promise<PlanFacts> {
  const all: PlanFacts[] = [];
  for (const service of view.plan.tracker.serviceNames()) {
    const [namespace = "", name = ""] = service.split("/");
    all.push(await planFacts(view, { kind: "service", namespace, name }));
  }
  for (const destination of loopbackDestinations(view)) {
    all.push(await planFacts(view, { kind: "destination", destination }));
  }
  const [first] = all;
  if (first === undefined) throw new Error("No Service is planned");
  const entries = Map.groupBy(
    all.flatMap(({ setEntries }) => Object.entries(setEntries)),
    ([name]) => name,
  );
  return {
    ...first,
    destinations: all.flatMap(({ destinations }) => destinations),
    forwards: all.flatMap(({ forwards }) => forwards),
    services: all.flatMap(({ services }) => services),
    virtualServers: all.flatMap(({ virtualServers }) => virtualServers),
    boundAddresses: all.flatMap(({ boundAddresses }) => boundAddresses),
    setEntries: Object.fromEntries(
      [...entries].map(([name, lists]) => [name, lists.flatMap(([, list]) => list)]),
    ),
  };
}

/** Loopback addresses belong to no virtual server, so they are queried separately. */
function loopbackDestinations({ config, families, plan }: DaemonView): readonly Destination[] {
  if (!config.localhostNodePorts) return [];
  const ports = [...plan.tracker.serviceNames()].flatMap(
    (name) => plan.tracker.service(name)?.ports ?? [],
  );
  return families.flatMap((family) =>
    ports
      .filter(({ nodePort }) => nodePort !== 0)
      .map(({ protocol, nodePort }) => ({
        ...{ protocol, port: nodePort },
        address: loopbackAddresses[family],
      })),
  );
}

/** Reads rules, sets and virtual servers once. Sockets are open until `body` ends. */
export async function withExplainer<T>(
  facts: PlanFacts,
  body: (explainer: Explainer) => Promise<T>,
): Promise<T> {
  const opened = openReaders(systemClock);
  const readers = { ...opened, routes: { find: rememberedRoutes(opened) } };
  try {
    const states = await readFamilies(readers, facts, undefined);
    return await body({
      explain: (paths, columns) => explainAll(paths, columns, { readers, facts, states }),
    });
  } finally {
    opened.close();
  }
}

/** Addresses do not move, so one lookup is enough for all sections. */
const routes = new Map<IpAddress, ReturnType<Routes["find"]>>();

function rememberedRoutes({ routes: lookup }: KernelReaders): Routes["find"] {
  return (address) => {
    const route = routes.get(address) ?? lookup.find(address);
    routes.set(address, route);
    return route;
  };
}

interface Known {
  readonly readers: Pick<KernelReaders, "sysctl" | "sockets" | "links"> & {
    readonly routes: Routes;
  };
  readonly facts: PlanFacts;
  readonly states: ReadonlyMap<IpFamily, FamilyState>;
}

async function explainAll(
  paths: readonly Path[],
  columns: readonly Column[],
  { readers, facts, states }: Known,
): Promise<ReadonlyMap<Path, Explained>> {
  const now = new Map<IpFamily, FamilyState>();
  for (const [family, state] of states) {
    const { planned, observed } = state;
    const addresses = [...observed.network.addresses].map((address) => ({
      ...{ address, prefixLength: hostPrefixLength(family), linkIndex: 0 },
    }));
    const network = await readNetwork(readers, { family, addresses, peers: peersOf(family) });
    now.set(family, { planned: { ...planned, network }, observed: { ...observed, network } });
  }
  return new Map(
    paths.map((path) => [
      path,
      new Map(columns.map((column) => [columnName(column), explainedIn(path, column, facts, now)])),
    ]),
  );
}

/** All packet sources and destinations. */
function peersOf(family: IpFamily): readonly IpAddress[] {
  const all = [client, branch, ...guests.map(({ addresses }) => addresses)];
  return all.map((addresses) => addressOf(addresses[family]));
}

function explainedIn(
  path: Path,
  column: Column,
  facts: PlanFacts,
  states: ReadonlyMap<IpFamily, FamilyState>,
): string {
  const { family } = column;
  const state = states.get(family);
  if (state === undefined) throw new Error(`${family} is not served`);
  const destination = targetOf(path, column);
  const explanation = explainOne({
    ...{ destination, facts, connections: noConnections },
    ...state,
    from: fromOf(path, family),
  });
  return outcomeText(explanation, destination);
}

function fromOf(path: Path, family: IpFamily): From {
  const source = path.source ?? sources.get(path.from);
  return source === undefined ? "node" : addressOf(source[family]);
}

/**
 * In iptables and userspace mode, queries once for each path, as the command does. Reads rules once for each section.
 */
export async function withCommand<T>(
  view: ModeView,
  body: (explainer: Explainer) => Promise<T>,
): Promise<T> {
  const opened = openReaders(systemClock);
  try {
    return await body({
      explain: async (paths, columns) => {
        const readers = readersOnce(opened);
        const explained = new Map<Path, Explained>();
        for (const path of paths) {
          const outcomes = new Map<ColumnName, string>();
          for (const column of columns) {
            const destination = targetOf(path, column);
            const facts = await planFacts(view, { kind: "destination", destination });
            const [explanation] = await explainWith(readers, facts, fromOf(path, column.family));
            if (explanation === undefined) throw new Error(`${destination.address} is not served`);
            outcomes.set(columnName(column), outcomeText(explanation, destination));
          }
          explained.set(path, outcomes);
        }
        return explained;
      },
    });
  } finally {
    opened.close();
  }
}

/** No program writes rules while a section is explained. */
function readersOnce(opened: KernelReaders): Parameters<typeof explainWith>[0] {
  const addresses = opened.link.listAddresses();
  const link = opened.link.find();
  const listening = opened.sockets.listListening();
  const rules = new Map<string, ReturnType<KernelReaders["openRules"]>>();
  const chains = new Map<
    IpFamily,
    ReturnType<Awaited<ReturnType<KernelReaders["openRules"]>>["observe"]>
  >();
  return {
    ...opened,
    link: { find: () => link, listAddresses: () => addresses },
    sockets: { listListening: () => listening },
    routes: { find: rememberedRoutes(opened) },
    conntrack: { listFlows: async () => [] },
    openRules: async (backend) => {
      const opening = rules.get(backend) ?? opened.openRules(backend);
      rules.set(backend, opening);
      const { observe } = await opening.then((client) => ({
        observe: client.observe.bind(client),
      }));
      return {
        observe: (family) => {
          const reading = chains.get(family) ?? observe(family);
          chains.set(family, reading);
          return reading;
        },
      };
    },
  };
}

const sources: ReadonlyMap<string, Addresses> = new Map([
  ["client", client],
  ...guests.map(({ name, addresses }) => [name, addresses] as const),
]);

function targetOf(path: Path, { protocol, family }: Column): Destination {
  const { address, port } = destinationIn(path.target, family);
  const isPing = protocol === "ping";
  return {
    protocol: isPing ? "ICMP" : protocol,
    address: addressOf(address),
    port: isPing ? 0 : port,
  };
}

/** Converts an explanation to the matrix's words for an outcome. */
function outcomeText(explanation: Explanation, destination: Destination): string {
  const packet = explanation.packets.at(-1);
  // The forwarding process accepts the connection before it finds that there are no endpoints.
  const isTaken = packet?.summary.includes(" are handled by kube-ipvs ") === true;
  const isReset =
    explanation.verdict === "refused" && (explanation.forwardedTo !== undefined || isTaken);
  if (isReset) return "ECONNRESET";
  if (explanation.mode !== "ipvs" && isDenied(explanation)) return "EPERM";
  switch (explanation.verdict) {
    case "balanced":
      return balancedText(explanation, destination.address);
    case "refused":
      return "refused";
    case "dropped":
      return "silence";
    case "forwarded":
      // The port is closed there. Other addresses belong to no host that could answer.
      return destination.address === node2[familyOf(destination.address)] ? "refused" : "silence";
    case "node":
      return processText(destination, packet?.source ?? "");
  }
}

/** If filter rejects a datagram in OUTPUT, the system call fails. */
function isDenied({ protocol, verdict, packets }: Explanation): boolean {
  const isStopped = verdict === "refused" || verdict === "dropped";
  return isStopped && protocol === "UDP" && packets.at(-1)?.path.at(-1)?.hook === "OUTPUT";
}

function balancedText({ packets, virtualServer }: Explanation, destination: string): string {
  const deliveries = packets.at(-1)?.deliveries ?? [];
  const outcomes = deliveries.flatMap(({ realServers, fate, obstacle, seenSource = "" }) =>
    realServers.map((realServer) => {
      if (fate !== "delivered" || obstacle !== undefined) {
        return fate === "refused" ? "refused" : "silence";
      }
      const backend = ownerOf(realServer.replace(/^\[?(.*?)\]?:\d+$/, "$1"), "");
      return `${backend}←${ownerOf(seenSource, destination)}`;
    }),
  );
  const isKept = (virtualServer?.persistenceTimeoutSeconds ?? 0) > 0 && outcomes.length > 1;
  return isKept ? "kept, then another" : [...new Set(outcomes)].sort().join(", ");
}

/** Outcomes of the node's own processes, which only this test knows. */
function processText({ protocol, address, port }: Destination, source: string): string {
  if (protocol === "ICMP") return "answered";
  if (port !== ownPort) return "refused";
  // A socket for all addresses answers from the node's address, not from the one that the client used.
  const isAnswered = protocol === "TCP" || address === node[familyOf(address)];
  return isAnswered ? `node←${ownerOf(source, address)}` : "silence";
}

function addressOf(text: string): IpAddress {
  const address = parseIpAddress(text);
  if (address === undefined) throw new Error(`Not an address: ${text}`);
  return address;
}
