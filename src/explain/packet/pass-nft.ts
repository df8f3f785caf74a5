/** Follows a packet through the base chains of other software's nftables tables. Pure. */
import { type NftBaseChain, type NftHook, nftKey, noNftRules } from "../../state/nft-rule.ts";
import { matchNftRule } from "./nft-match.ts";
import type { NodeState } from "./node-state.ts";
import type { PacketOnPath } from "./packet.ts";
import type { Step } from "./traverse.ts";

/** Priorities from `first` up to, but not including, `end`. If `unsure`, packets may bypass the chains. */
export type Priorities = readonly [first: number, end: number, certainty?: "unsure"];

export interface NftPassage {
  readonly verdict: "pass" | "dropped" | "refused";
  /** Rules that drop the packet, or that may drop it. */
  readonly steps: readonly Step[];
  readonly isMasqueraded: boolean;
}

type End = "accept" | "dropped" | "refused" | "return";

interface Walk {
  readonly chain: NftBaseChain;
  readonly onPath: PacketOnPath;
  readonly state: NodeState;
  readonly isBridgePort: boolean;
  readonly steps: Step[];
  /** The first rule that may accept the packet, but cannot be evaluated. */
  unless?: string;
  isMasqueraded: boolean;
}

/** Traverses a hook's chains in priority order until one of them stops the packet. */
export function passNft(
  hook: NftHook,
  [first, end, certainty]: Priorities,
  onPath: PacketOnPath,
  state: NodeState,
): NftPassage {
  const { baseChains } = state.nft ?? noNftRules;
  const steps: Step[] = [];
  let isMasqueraded = false;
  for (const chain of baseChains) {
    if (chain.hook !== hook || chain.priority < first || chain.priority >= end) continue;
    const passage = passageOf(chain, onPath, state);
    if (passage === "none") continue;
    const isSure = passage.startsWith("sure") && certainty === undefined;
    const isBridgePort = passage.endsWith("bridge port");
    const walk: Walk = { chain, onPath, state, isBridgePort, steps: [], isMasqueraded };
    const result = walkChain(chain.name, walk, isSure, 0);
    const isStopped = result === "dropped" || result === "refused";
    if (result === "return" && chain.isDropPolicy)
      pushStep(walk, chain.name, "policy drop", isSure);
    steps.push(...walk.steps);
    ({ isMasqueraded } = walk);
    if (isStopped) return { verdict: result, steps, isMasqueraded };
    if (result === "return" && chain.isDropPolicy && isSure)
      return { verdict: "dropped", steps, isMasqueraded };
  }
  return { verdict: "pass", steps, isMasqueraded };
}

/**
 * Whether a packet traverses a chain. The port through which it enters or leaves a bridge is unknown. If br_netfilter is
 * on, the kernel may translate or route a packet inside the bridge. The packet may then traverse a chain of the
 * `bridge` family with different addresses, or bypass that chain.
 */
function passageOf(
  { hook, devices, isBridge = false, isNat = false }: NftBaseChain,
  { packet, destination, stage }: PacketOnPath,
  { network: { routes, isBridgeFiltered, bridgesOfPorts } }: NodeState,
): "sure" | "sure at a bridge port" | "unknown link" | "bridge port" | "none" {
  if (isNat && stage !== undefined) return "none";
  if (devices === undefined && !isBridge) return "sure";
  const isOut = hook === "EGRESS";
  const route = routes.get(isOut ? destination : packet.source);
  const link = isOut ? route?.link : packet.inLink || undefined;
  if (link === undefined) return isOut || packet.isFromNode ? "none" : "unknown link";
  if (devices?.includes(link) === true) return "sure";
  if (route?.isBridge !== true || route.link !== link) return "none";
  if (devices !== undefined)
    return devices.some((device) => bridgesOfPorts?.get(device) === link) ? "bridge port" : "none";
  if (isBridgeFiltered) return "bridge port";
  return hook === "FORWARD" ? "none" : "sure at a bridge port";
}

/** Limits the depth of jumps, as the kernel does. */
const maxDepth = 16;

/** If `isCertain` is false, the packet may not reach this chain, so its rules do not determine the verdict. */
function walkChain(name: string, walk: Walk, isCertain: boolean, depth: number): End {
  const { chain, onPath, state, isBridgePort } = walk;
  const { chains, sets } = state.nft ?? noNftRules;
  const setOf = (set: string) => sets.get(nftKey(chain.table, set));
  if (depth > maxDepth) return "return";
  for (const rule of chains.get(nftKey(chain.table, name)) ?? []) {
    const match = matchNftRule(rule, { chain, onPath, state, isBridgePort, setOf });
    if (match?.verdict === undefined) continue;
    const { verdict } = match;
    const isSure = isCertain && match.isCertain;
    switch (verdict.kind) {
      case "drop":
      case "reject":
        pushStep(walk, name, rule.text, isSure);
        if (isSure) return verdict.kind === "drop" ? "dropped" : "refused";
        break;
      case "accept":
      case "return":
        if (isSure) return verdict.kind;
        walk.unless ??= `${nftKey(chain.table, name)}: ${rule.text}`;
        break;
      case "masquerade":
        pushStep(walk, name, rule.text, isSure);
        if (!isSure) break;
        walk.isMasqueraded = true;
        return "accept";
      case "jump":
      case "goto": {
        const end = walkChain(verdict.chain, walk, isSure, depth + 1);
        if (isSure && (end !== "return" || verdict.kind === "goto")) return end;
        break;
      }
      case "unknown":
        walk.unless ??= `${nftKey(chain.table, name)}: ${rule.text}`;
        pushStep(walk, name, rule.text, false);
    }
  }
  return "return";
}

function pushStep(
  { chain, steps, unless }: Walk,
  name: string,
  rule: string,
  isSure: boolean,
): void {
  steps.push({
    ...{ hook: chain.hook, table: chain.table, chain: name, rule, entries: [] },
    ...(isSure ? {} : { isMaybe: true }),
    ...(!isSure || unless === undefined ? {} : { unless }),
  });
}
