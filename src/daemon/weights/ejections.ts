/**
 * Ejects endpoints to which new TCP connections fail. IPVS statistics show which endpoints are suspect. An attempt to
 * connect from this node then confirms that an endpoint fails, and later that it works again.
 */
import { once } from "node:events";
import { connect } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { type HostPort, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import {
  type FamilyServiceKey,
  familyServiceKey,
  type ServiceName,
  toServiceName,
} from "../../base/service-name.ts";
import type { IpvsTraffic } from "../../kernel/kernel.ts";
import type { ServicePlan } from "../../plan/planner.ts";
import type { PlannedVirtualServer } from "../../plan/service-port-plan.ts";
import { mostWithoutWeight } from "../../plan/weights.ts";
import { type RealServerId, realServerKey } from "../../state/real-server.ts";
import { addTraffic, type Traffic, trafficSince } from "../../state/traffic.ts";
import type { NumberRecord } from "../process/number-record.ts";

const windowMs = 5_000;
/** If an endpoint receives few connections, the statistics of several windows are added, up to this total length. */
const longestWindowMs = 60_000;
const fewestConnections = 3;
/**
 * Endpoints that send more packets than this per new connection are not suspects. A connection that works has at least
 * a SYN-ACK, data, an ACK and a FIN. For one that fails, the endpoint's node may send up to three ICMP errors.
 */
const mostPacketsOfFailure = 3;
/** Maximum number of virtual servers that are read in one window, for all Services together. */
const mostVirtualServers = 500;
const mostTries = 20;
/** For comparison, this node also tries to connect to this many endpoints that are not suspects. */
const mostOthers = 3;
const connectMs = 1_000;
/** The minimum time doubles with each consecutive ejection, up to this multiple of the configured time. */
const longestFactor = 16;

export interface EjectionsContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly ipvs: Pick<IpvsTraffic, "listRealServerTraffic">;
  /** Whether this node can connect to the endpoint. Never rejects. If undefined, TCP connections are opened. */
  readonly canConnect?: (endpoint: RealServerId) => Promise<boolean>;
  /** Records each ejected endpoint's number of consecutive ejections. If undefined, a restart ends all ejections. */
  readonly record?: NumberRecord;
  /** If true, nothing is checked, and only recorded ejections apply. */
  readonly isReadOnly: boolean;
  /** Whether all Services have been planned since startup. Until then, nothing is checked or forgotten. */
  readonly isPlanned: () => boolean;
  /** Called when the weights of this Service must be planned again. */
  readonly onChange: (service: ServiceName) => void;
  readonly onCount: (ejected: number) => void;
}

/** One family of a Service. */
interface Watched {
  readonly service: ServiceName;
  readonly outlierEjectionMs: number;
  readonly servers: readonly PlannedVirtualServer[];
  /** Each endpoint's counters when its traffic was last judged. */
  samples: ReadonlyMap<HostPort, Sample>;
}

interface Sample {
  readonly endpoint: RealServerId;
  readonly traffic: Traffic;
  readonly atMs: number;
}

interface Ejection {
  /** Number of consecutive ejections. */
  readonly times: number;
  /** Time of the next attempt to connect. If `isOut` is false, the time at which `times` is reset. */
  readonly untilMs: number;
  readonly isOut: boolean;
}

export class Ejections {
  readonly #context: EjectionsContext;
  readonly #canConnect: NonNullable<EjectionsContext["canConnect"]>;
  /** In the order in which they will be read. */
  readonly #watched = new Map<FamilyServiceKey, Watched>();
  /** By `SERVICE ENDPOINT`, as recorded. */
  readonly #ejections: Map<string, Ejection>;
  /** Number of suspects to which this node may still try to connect in this window. */
  #triesLeft = mostTries;
  readonly #task: Periodic;

  constructor(context: EjectionsContext) {
    this.#context = context;
    this.#canConnect = context.canConnect ?? canConnect;
    const recalled = [...(context.record?.recalled ?? [])];
    this.#ejections = new Map(
      recalled.map(([key, times]) => [key, { times, untilMs: 0, isOut: true }]),
    );
    const task = { name: "check for failing endpoints", intervalMs: windowMs, maxShare: 0.5 };
    this.#task = new Periodic({ ...task, run: () => this.#check() }, context);
  }

  isEjected(service: ServiceName, endpointKey: HostPort): boolean {
    return this.#ejections.get(`${service} ${endpointKey}`)?.isOut === true;
  }

  /** Records the virtual servers of a Service that was planned. */
  note({ service, family, outlierEjectionMs, servicePorts }: EjectingPlan): void {
    const key = familyServiceKey(family, service);
    const all = outlierEjectionMs === 0 ? none : servicePorts.flatMap((one) => one.virtualServers);
    const servers = all.filter(({ virtualServer }) => virtualServer.protocol === "TCP");
    const { samples = new Map() } = this.#watched.get(key) ?? {};
    if (servers.length === 0) this.#watched.delete(key);
    else this.#watched.set(key, { service, outlierEjectionMs, servers, samples });
    if (!this.#context.isReadOnly && this.#watched.size + this.#ejections.size > 0)
      this.#task.start();
  }

  stop(): void {
    this.#task.stop();
  }

  async #check(): Promise<NextRun> {
    if (!this.#context.isPlanned()) return "paced";
    await this.#tryEjected();
    const watched = this.#takeNext();
    const ids = watched.flatMap(({ servers }) => servers.map(({ virtualServer }) => virtualServer));
    const lists = (await this.#context.ipvs.listRealServerTraffic(ids)).values();
    const judged = watched.map((one) => {
      const totals = new Map<HostPort, Omit<Sample, "atMs">>();
      const all = one.servers.flatMap(() => lists.next().value ?? none);
      for (const { address, port, traffic } of all) {
        const endpoint = { address, port };
        const key = realServerKey(endpoint);
        const before = totals.get(key)?.traffic;
        totals.set(key, { endpoint, traffic: before ? addTraffic(before, traffic) : traffic });
      }
      return { one, suspects: this.#judge(one, totals) };
    });
    this.#triesLeft = mostTries;
    await Promise.all(judged.map(({ one, suspects }) => this.#confirm(one, suspects)));
    return this.#watched.size + this.#ejections.size === 0 ? "stop" : "paced";
  }

  /**
   * The next Services in turn, with at most `mostVirtualServers` virtual servers in all. A single Service may have
   * more.
   */
  #takeNext(): readonly Watched[] {
    const taken: Watched[] = [];
    let count = 0;
    for (const [key, one] of [...this.#watched]) {
      count += one.servers.length;
      if (count > mostVirtualServers && taken.length > 0) break;
      taken.push(one);
      this.#watched.delete(key);
      this.#watched.set(key, one);
    }
    return taken;
  }

  /** Returns the endpoints whose new connections probably fail. */
  #judge(one: Watched, totals: ReadonlyMap<HostPort, Omit<Sample, "atMs">>): ReadonlySet<HostPort> {
    const atMs = this.#context.clock.monotonicMs();
    const suspects = new Set<HostPort>();
    const samples = new Map<HostPort, Sample>();
    for (const [key, { endpoint, traffic }] of totals) {
      const before = one.samples.get(key);
      const since = trafficSince(before?.traffic, traffic);
      // `trafficSince` returns the current counters unchanged if they were reset.
      const isKnown = before !== undefined && since !== traffic;
      const isJudged = isKnown && since.connections >= fewestConnections;
      if (isJudged && since.packetsOut <= mostPacketsOfFailure * since.connections)
        suspects.add(key);
      const isKept = isKnown && !isJudged && atMs - before.atMs < longestWindowMs;
      samples.set(key, isKept ? before : { endpoint, traffic, atMs });
    }
    one.samples = samples;
    return suspects;
  }

  /**
   * Ejects suspects to which this node cannot connect. Ejects none if this node cannot connect to any other endpoint
   * either, because the cause may then be the node's own network or a network policy.
   */
  async #confirm(one: Watched, suspects: ReadonlySet<HostPort>): Promise<void> {
    const { service, samples } = one;
    const isIn = (key: HostPort): boolean => !this.isEjected(service, key);
    const out = [...samples.keys()].filter((key) => !isIn(key)).length;
    const room = Math.min(this.#triesLeft, mostWithoutWeight(samples.size) - out);
    const tried = [...suspects].filter(isIn).slice(0, Math.max(0, room));
    const others = [...samples.keys()].filter((key) => isIn(key) && !suspects.has(key));
    if (tried.length === 0) return;
    this.#triesLeft -= tried.length;
    const connects = async (key: HostPort): Promise<boolean> => {
      const endpoint = samples.get(key)?.endpoint;
      return endpoint !== undefined && (await this.#canConnect(endpoint));
    };
    const doOthersAnswer = await Promise.all(others.slice(0, mostOthers).map(connects));
    if (!doOthersAnswer.includes(true)) return;
    const twice = async (key: HostPort): Promise<boolean> =>
      (await connects(key)) || (await connects(key));
    const areWorking = await Promise.all(tried.map(twice));
    for (const key of tried.filter((_, index) => !areWorking[index])) this.#eject(one, key);
  }

  #eject({ service, outlierEjectionMs }: Watched, endpoint: HostPort): void {
    const key = `${service} ${endpoint}`;
    const times = 1 + (this.#ejections.get(key)?.times ?? 0);
    const lastsMs = lastsFor(outlierEjectionMs, times);
    const untilMs = this.#context.clock.monotonicMs() + lastsMs;
    this.#context.log.info("Endpoint ejected because new connections to it are failing", {
      ...{ service, endpoint, times, seconds: lastsMs / 1_000 },
    });
    this.#set(service, key, { times, untilMs, isOut: true });
  }

  /** Tries to connect to ejected endpoints whose ejection time is over. Forgets those that are no longer planned. */
  async #tryEjected(): Promise<void> {
    const nowMs = this.#context.clock.monotonicMs();
    let left = mostTries;
    const tries = [...this.#ejections].map(async ([key, { times, untilMs, isOut }]) => {
      const [name = "", endpoint = ""] = key.split(" ");
      const service = toServiceName(name);
      const found = this.#find(service, endpoint);
      if (found === undefined || (!isOut && untilMs <= nowMs)) return this.#set(service, key);
      if (!isOut || untilMs > nowMs || left === 0) return;
      left -= 1;
      if (!(await this.#canConnect(found.server)))
        return this.#eject(found.one, realServerKey(found.server));
      this.#context.log.info("Ejected endpoint works again", { service, endpoint });
      const forgottenMs = nowMs + lastsFor(found.one.outlierEjectionMs, times + 1);
      this.#set(service, key, { times, untilMs: forgottenMs, isOut: false });
    });
    await Promise.all(tries);
  }

  #find(service: ServiceName, endpoint: string) {
    for (const family of ipFamilies) {
      const one = this.#watched.get(familyServiceKey(family, service));
      for (const { realServers } of one?.servers ?? none) {
        const server = realServers.find((server) => realServerKey(server) === endpoint);
        if (one !== undefined && server !== undefined) return { one, server };
      }
    }
    return undefined;
  }

  #set(service: ServiceName, key: string, ejection?: Ejection): void {
    const wasOut = this.#ejections.get(key)?.isOut === true;
    if (ejection === undefined) this.#ejections.delete(key);
    else this.#ejections.set(key, ejection);
    const out = [...this.#ejections].filter(([, { isOut }]) => isOut);
    this.#context.record?.keep(() => out.map(([name, { times }]) => [name, times]));
    this.#context.onCount(out.length);
    if (wasOut !== (ejection?.isOut === true)) this.#context.onChange(service);
  }
}

type EjectingPlan = Pick<ServicePlan, "service" | "family" | "outlierEjectionMs" | "servicePorts">;

function lastsFor(outlierEjectionMs: number, times: number): number {
  return Math.max(windowMs, outlierEjectionMs) * Math.min(longestFactor, 2 ** (times - 1));
}

async function canConnect({ address, port }: RealServerId): Promise<boolean> {
  const socket = connect(port, address);
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(connectMs) });
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
