/**
 * Stale UDP conntrack entries. UDP flows never end explicitly. As long as a client sends from the same source port, its
 * conntrack entry remains, even if it leads to a real server that no longer exists.
 */
import type { Clock } from "../../base/clock.ts";
import { familyOf, type HostPort, hostPort, ipFamilies } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { sameSet } from "../../base/same-set.ts";
import type { Conntrack } from "../../kernel/kernel.ts";
import type { UdpDestination } from "../../plan/iptables/udp-destinations.ts";
import { type Flow, type FlowSelection, servedDestination } from "../../state/flow.ts";
import { realServerKey } from "../../state/real-server.ts";
import { type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import type { ConntrackPass, Outcomes } from "../apply/outcome.ts";
import type { ChangeOf } from "../change.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { Kinds } from "./kind.ts";

export const flowKinds: Kinds<"conntrack-delete"> = {
  "conntrack-delete": {
    subject: ({ key }) => ({ type: "conntrack", virtualServer: key }),
    requestKey: () => "conntrack",
    // Does nothing, because `cleanConntrack` makes these changes. It lists the flows of many virtual servers together
    // and repeats failed checks.
    send: async () => [],
  },
};

/** If there are more selections, all flows of the family are listed once instead. */
const maxSelections = 64;

/** Selects flows to check. */
export interface FlowCheck {
  /** Key of the virtual server that `selection` refers to. */
  readonly key: ServerKey;
  readonly selection: FlowSelection;
  /** Returns the keys of the real servers that may reply. Called when the check runs. */
  answers(): ReadonlySet<HostPort>;
  /** For a port range: whether the range serves the flow. The real servers of a range keep the destination port. */
  servesFlow?(flow: Flow): boolean;
}

/** Remembers which endpoints may reply at each UDP destination, and finds destinations for which this changed. */
export class KnownAnswers {
  #known: ReadonlyMap<ServerKey, UdpDestination> = new Map();

  /**
   * The checks for destinations that changed or disappeared since the last call. If rules were missing, all
   * destinations are checked, because packets of any client may have created a conntrack entry that leads to no
   * endpoint.
   */
  changed(wanted: readonly UdpDestination[], wereRulesMissing: boolean): readonly FlowCheck[] {
    const before = this.#known;
    const after = new Map(wanted.map((one) => [one.key, one]));
    this.#known = after;
    const changed = wanted.filter(({ key, answers }) => {
      const known = wereRulesMissing ? undefined : before.get(key);
      return known === undefined || !sameSet(known.answers, answers);
    });
    const gone = [...before.values()].filter(({ key }) => !after.has(key));
    const unanswered = gone.map((one) => ({ ...one, answers: new Set<HostPort>() }));
    return [...changed, ...unanswered].map(flowCheckOf);
  }
}

/** Selects all flows to a destination. */
function flowCheckOf({ key, address, port, answers }: UdpDestination): FlowCheck {
  const selection = { destination: address, destinationPort: port };
  return { key, selection, answers: () => answers };
}

/**
 * Deletes stale UDP conntrack entries. The conntrack table may have a million entries, so only the relevant ones are
 * requested from the kernel. Failed checks are kept for the next call.
 */
export class ConntrackCleaner {
  readonly #conntrack: Conntrack;
  readonly #clock: Clock;
  readonly #pending = new Map<string, FlowCheck>();

  constructor(conntrack: Conntrack, clock: Clock) {
    this.#conntrack = conntrack;
    this.#clock = clock;
  }

  /** Checks that have not succeeded yet. */
  get pending(): readonly FlowCheck[] {
    return [...this.#pending.values()];
  }

  /**
   * Runs these checks and all pending ones. Rejects if the kernel cannot be read. `onPass` is called after each
   * family.
   */
  async clean(checks: readonly FlowCheck[], onPass: (pass: ConntrackPass) => void): Promise<void> {
    for (const check of checks) this.#pending.set(checkKey(check), check);
    const { pending } = this;
    const allowed = new Map(pending.map((check) => [check.key, check.answers()]));
    const ranges = pending.filter(({ servesFlow }) => servesFlow !== undefined);
    const byFamily = Map.groupBy(pending, ({ selection }) => familyOf(selection.destination));
    for (const family of ipFamilies) {
      const ofFamily = byFamily.get(family);
      if (ofFamily === undefined) continue;
      const beganMs = this.#clock.monotonicMs();
      let deletedCount = 0;
      for (const check of ofFamily.length > maxSelections ? [undefined] : ofFamily) {
        const flows = await this.#conntrack.listUdpFlows(family, check?.selection);
        const stale = staleFlows(flows, allowed, ranges);
        if (stale.length > 0) deletedCount += await this.#conntrack.remove(stale);
      }
      onPass({ family, elapsedMs: this.#clock.monotonicMs() - beganMs, deletedCount });
    }
    this.#pending.clear();
  }
}

/** Makes these deletions, and runs pending checks. Never rejects. `cached` contains the real servers that may reply. */
export function cleanConntrack(
  cleaner: ConntrackCleaner,
  deletions: readonly ChangeOf<"conntrack-delete">[],
  cached: CachedState,
  outcomes: Outcomes,
): Promise<void> {
  const checks = deletions.map(({ key, selection }): FlowCheck => {
    // These include draining real servers, which still reply.
    const answers = (): ReadonlySet<HostPort> =>
      new Set(cached.virtualServers.get(key)?.realServers.map(realServerKey));
    return { key, selection, answers };
  });
  return cleanFlows(cleaner, checks, outcomes);
}

/** Runs these checks and all pending ones. Never rejects. */
export async function cleanFlows(
  cleaner: ConntrackCleaner,
  checks: readonly FlowCheck[],
  outcomes: Outcomes,
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
 * Returns flows to the virtual servers in `allowed` (by key) for which no allowed real server would reply. These
 * include flows without address translation, which began while the virtual server had no real servers. Address and port
 * must both match the virtual server, so other flows with the same port number are not affected. Pure.
 */
export function staleFlows(
  flows: readonly Flow[],
  allowed: ReadonlyMap<ServerKey, ReadonlySet<HostPort>>,
  ranges: readonly FlowCheck[] = none,
): readonly Flow[] {
  return flows.filter((flow) => {
    const answers = allowed.get(serverKeyOf(flow));
    if (answers !== undefined)
      return !answers.has(hostPort(flow.replySource, flow.replySourcePort));
    const range = ranges.find((one) => one.servesFlow?.(flow) === true);
    if (range === undefined) return false;
    const isAnswered = allowed.get(range.key)?.has(hostPort(flow.replySource, 0)) === true;
    return !isAnswered || flow.replySourcePort !== flow.destinationPort;
  });
}

/** The key of the virtual server without a firewall mark that would serve a flow. */
export function serverKeyOf({ protocol, destination, destinationPort: port }: Flow): ServerKey {
  return virtualServerKey({ protocol, address: servedDestination(destination), port });
}
