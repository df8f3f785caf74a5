/**
 * Tracked UDP flows that lead nowhere. UDP has no end of connection: a client that keeps its source port
 * keeps its conntrack entry, and with it a real server that is gone, for as long as it sends.
 */
import type { Clock } from "../../base/clock.ts";
import { familyOf, hostPort, ipFamilies } from "../../base/ip.ts";
import type { Conntrack } from "../../kernel/kernel.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import { type Flow, type FlowSelection, servedDestination } from "../../state/flow.ts";
import { realServerKey } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { ConntrackPass, OutcomeCollector } from "../apply/outcome.ts";
import type { ChangeOf } from "../change.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { Kinds } from "./kind.ts";

export const flowKinds: Kinds<"conntrack-delete"> = {
  "conntrack-delete": {
    subject: ({ key }) => ({ type: "conntrack", virtualServer: key }),
    requestKey: () => "conntrack",
    // The flows of many virtual servers are listed together, and what fails is kept: see cleanConntrack.
    send: async () => [],
  },
};

/** More selections than this, and the flows of the family are listed once, all of them. */
const maxSelections = 64;

/** Flows to be looked through. */
export interface FlowCheck {
  /** Of the virtual server that `selection` names. */
  readonly key: string;
  readonly selection: FlowSelection;
  /** Keys of the real servers that may answer, as they are when it is done; empty: nobody. */
  answers(): ReadonlySet<string>;
}

/** All flows to a destination. */
export function flowCheckOf({ key, address, port, answers }: UdpDestination): FlowCheck {
  const selection = { destination: address, destinationPort: port };
  return { key, selection, answers: () => answers };
}

/**
 * Deletes stale conntrack entries of UDP flows. The connection table may hold a million of them: the kernel is asked for
 * those in question only. What could not be done is kept for the next time.
 */
export class ConntrackCleaner {
  readonly #conntrack: Conntrack;
  readonly #clock: Clock;
  readonly #pending = new Map<string, FlowCheck>();

  constructor(conntrack: Conntrack, clock: Clock) {
    this.#conntrack = conntrack;
    this.#clock = clock;
  }

  /** What is left to be done. */
  get pending(): readonly FlowCheck[] {
    return [...this.#pending.values()];
  }

  /** Carries out these and what was left before. Rejects where the kernel cannot be asked. `onPass`: after each family. */
  async clean(checks: readonly FlowCheck[], onPass: (pass: ConntrackPass) => void): Promise<void> {
    for (const check of checks) this.#pending.set(checkKey(check), check);
    const { pending } = this;
    const allowed = new Map(pending.map((check) => [check.key, check.answers()]));
    const byFamily = Map.groupBy(pending, ({ selection }) => familyOf(selection.destination));
    for (const family of ipFamilies) {
      const ofFamily = byFamily.get(family);
      if (ofFamily === undefined) continue;
      const beganMs = this.#clock.monotonicMs();
      let deletedCount = 0;
      for (const check of ofFamily.length > maxSelections ? [undefined] : ofFamily) {
        const flows = await this.#conntrack.listUdpFlows(family, check?.selection);
        const stale = staleFlows(flows, allowed);
        if (stale.length > 0) deletedCount += await this.#conntrack.remove(stale);
      }
      onPass({ family, elapsedMs: this.#clock.monotonicMs() - beganMs, deletedCount });
    }
    this.#pending.clear();
  }
}

/** Carries out these deletions and what was left before. Never rejects. `cached`: who may answer. */
export function cleanConntrack(
  cleaner: ConntrackCleaner,
  deletions: readonly ChangeOf<"conntrack-delete">[],
  cached: CachedState,
  outcomes: OutcomeCollector,
): Promise<void> {
  const checks = deletions.map(({ key, selection }): FlowCheck => {
    // Real servers that drain still answer.
    const answers = (): ReadonlySet<string> =>
      new Set(cached.virtualServers.get(key)?.realServers.map(realServerKey));
    return { key, selection, answers };
  });
  return cleanFlows(cleaner, checks, outcomes);
}

/** Carries out these checks and what was left before. Never rejects. */
export async function cleanFlows(
  cleaner: ConntrackCleaner,
  checks: readonly FlowCheck[],
  outcomes: OutcomeCollector,
): Promise<void> {
  try {
    await cleaner.clean(checks, (pass) => outcomes.notePass(pass));
  } catch (error) {
    const [{ key }] = cleaner.pending as readonly [FlowCheck];
    outcomes.unknown.push({
      kind: "conntrack-delete",
      first: { type: "conntrack", virtualServer: key },
      count: cleaner.pending.length,
      error: error as Error,
    });
  }
}

function checkKey({ key, selection: { answeredBy } }: FlowCheck): string {
  return answeredBy === undefined ? key : `${key} ${hostPort(answeredBy.address, answeredBy.port)}`;
}

/**
 * Picks the flows to one of the virtual servers, by their keys, whose answers come from nobody it has. That includes
 * flows that were never translated, because the virtual server had nobody when they began. Address and
 * port must both be the virtual server's: a flow that merely uses the same port number is not touched. Pure.
 */
export function staleFlows(
  flows: readonly Flow[],
  allowed: ReadonlyMap<string, ReadonlySet<string>>,
): readonly Flow[] {
  return flows.filter((flow) => {
    const { protocol, destinationPort: port } = flow;
    const key = virtualServerKey({ protocol, address: servedDestination(flow.destination), port });
    const answers = allowed.get(key);
    return answers !== undefined && !answers.has(hostPort(flow.replySource, flow.replySourcePort));
  });
}
