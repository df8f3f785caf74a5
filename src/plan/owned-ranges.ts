import { familyOf, type IpFamily } from "../base/ip.ts";
import type { ServiceName } from "../base/service-name.ts";
import { type ServedRange, servedRangeText } from "../state/served-range.ts";
import type { ServerKey } from "../state/virtual-server.ts";
import type { WinnerChange } from "./claims/claims.ts";
import type { ServerClaim } from "./claims/server-claims.ts";

/** Port ranges and ports with tunnel forwarding, by the key of their virtual server. Nearly always empty. */
export class OwnedRanges {
  readonly #ranges = new Map<ServerKey, ServedRange>();
  /** Services of which one took over a mark from the other, until they are planned again. */
  readonly contenders: Set<ServiceName> = new Set();

  /** Returns the family whose rules change. Undefined if the virtual server has no mark. */
  note(key: ServerKey, { before, after }: WinnerChange<ServerClaim>): IpFamily | undefined {
    const [former, current] = [before?.planned?.range, after?.planned?.range];
    if (current !== undefined) this.#ranges.set(key, current);
    else if (former !== undefined) this.#ranges.delete(key);
    const range = current ?? former;
    if (range === undefined) return undefined;
    const [from, to] = [before, after].map((one) => one?.plan.servicePort.service);
    if (from !== undefined && to !== undefined && from !== to) this.contenders.add(from).add(to);
    return familyOf(range.address);
  }

  /** A family's port ranges or tunnels, in a stable order. */
  of(family: IpFamily, areTunnels: boolean): readonly ServedRange[] {
    return [...this.#ranges.values()]
      .filter((one) => familyOf(one.address) === family)
      .filter(({ tunnel }) => (tunnel !== undefined) === areTunnels)
      .sort((one, other) => one.mark - other.mark);
  }
}

/** Ports with tunnel forwarding, other than node ports, whose mark for packets from other nodes another Service has. */
export function tunnelsWithoutMark(
  losing: Iterable<ServerClaim>,
  family: IpFamily,
): readonly ServedRange[] {
  return [...losing]
    .flatMap(({ planned }) => planned?.range ?? [])
    .filter(
      ({ address, tunnel }) =>
        familyOf(address) === family && tunnel?.end === "in" && tunnel.isOfOtherNodes !== true,
    )
    .sort((one, other) => (servedRangeText(one) < servedRangeText(other) ? -1 : 1));
}
