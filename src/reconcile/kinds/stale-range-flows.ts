/**
 * Stale UDP conntrack entries of port ranges. The plan of a sync does not contain these checks, because the virtual
 * server of a range has a firewall mark and thus no address: the range of a removed one must be remembered.
 */
import { familyOf, type HostPort, ipFamilies } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { realServerKey } from "../../state/real-server.ts";
import { type ServedRange, servedRangeText, serves } from "../../state/served-range.ts";
import { markServerId, virtualServerKey } from "../../state/virtual-server.ts";
import type { CachedState } from "../observed/cached-state.ts";
import { type FlowCheck, serverKeyOf } from "./stale-flows.ts";

/** A range's check, and the real servers that could reply at the last call. */
interface Known {
  readonly check: FlowCheck;
  readonly answers: ReadonlySet<HostPort>;
}

/** Remembers the real servers of port ranges, and finds ranges whose flows may have become stale. */
export class KnownRanges {
  #known: ReadonlyMap<string, Known> = new Map();

  /** The checks for ranges that are new or gone, and for those that lost a real server or had none at the last call. */
  changed(desired: Pick<DesiredView, "ranges">, cached: CachedState): readonly FlowCheck[] {
    const ranges = ipFamilies
      .flatMap((family) => desired.ranges(family))
      .filter(({ protocols }) => protocols.includes("UDP"));
    const before = this.#known;
    if (ranges.length === 0 && before.size === 0) return none;
    const after = new Map(
      ranges.map((range) => {
        const check = checkOf(range, cached);
        return [servedRangeText(range), { check, answers: check.answers() }] as const;
      }),
    );
    this.#known = after;
    const changed = [...after].filter(([text, { answers }]) => {
      const known = [...(before.get(text)?.answers ?? none)];
      return known.length === 0 || !known.every((answer) => answers.has(answer));
    });
    const gone = [...before].filter(([text]) => !after.has(text));
    return [...gone, ...changed].map(([, { check }]) => check);
  }
}

function checkOf(range: ServedRange, cached: CachedState): FlowCheck {
  const key = virtualServerKey(markServerId(familyOf(range.address), range.mark));
  return {
    key,
    selection: { destination: range.address },
    // These include draining real servers, which still reply.
    answers: () => new Set(cached.virtualServers.get(key)?.realServers.map(realServerKey)),
    // Single ports take precedence over ranges.
    servesFlow: (flow) => {
      const { protocol, destination: address, destinationPort: port } = flow;
      return (
        serves(range, { protocol, address, port }) && !cached.virtualServers.has(serverKeyOf(flow))
      );
    },
  };
}
