import type { NftHook as Hook } from "../../state/nft-rule.ts";
import { chainKey, type Match, type TableName, type Target } from "../../state/rule.ts";
import { matchOthers } from "./match-others.ts";
import { type FoundEntry, matchRule, type PacketAtRule } from "./match-rule.ts";
import type { NodeState } from "./node-state.ts";
import { isTrackedEarly, type PacketOnPath } from "./packet.ts";
import { type Priorities, passNft } from "./pass-nft.ts";

/** A rule that matched. */
export interface Step {
  readonly hook: Hook;
  /** An iptables table, or an nftables family and table, such as `inet firewalld`. */
  readonly table: string;
  readonly chain: string;
  /** The text after `-A CHAIN `, or the rule as `nft` writes it. */
  readonly rule: string;
  /** The set entries that the rule matched. */
  readonly entries: readonly FoundEntry[];
  /** An earlier rule that cannot be evaluated and may have accepted the packet: `filter INPUT: …`. */
  readonly unless?: string;
  /** Whether the rule cannot be evaluated but may drop or translate the packet. */
  readonly isMaybe?: true;
}

/** A rewritten destination. */
export type Translation = Target & { readonly kind: "translate" | "redirect" };

/** The outcome of one table's rules for a packet at one hook. */
export interface Traversal {
  readonly verdict: "pass" | "dropped" | "refused";
  /** The new destination, if the last rule rewrites it. */
  readonly translation?: Translation;
  readonly isMasqueraded: boolean;
  readonly mark: number;
  readonly steps: readonly Step[];
}

/** Limits the depth of jumps between chains. The kernel rejects loops. */
const maxDepth = 16;

interface Context {
  readonly hook: Hook;
  readonly table: TableName;
  readonly state: NodeState;
  readonly onPath: PacketOnPath;
  /** Decides whether a rule with a random match matches. */
  readonly draw: () => boolean;
  mark: number;
  isMasqueraded: boolean;
  translation?: Translation;
  readonly steps: Step[];
  /** The first rule that cannot be evaluated and may accept the packet. */
  unless?: string;
}

/** Returns the outcome of every combination of random matches, starting with the one in which all match. */
export function everyTraversal(...at: Parameters<typeof traverse>): readonly Traversal[] {
  const [hook, table, onPath, state] = at;
  const traversals: Traversal[] = [];
  const drawn: boolean[] = [];
  do {
    let asked = 0;
    const draw = (): boolean => {
      asked += 1;
      if (asked > drawn.length) drawn.push(true);
      return drawn[asked - 1] === true;
    };
    traversals.push(traverse(hook, table, onPath, state, draw));
  } while (drawNext(drawn));
  return traversals;
}

/** Changes the last drawn match to a mismatch. Returns false if there is no further combination. */
function drawNext(drawn: boolean[]): boolean {
  while (drawn.at(-1) === false) drawn.pop();
  if (drawn.length === 0) return false;
  drawn[drawn.length - 1] = false;
  return true;
}

/**
 * Follows a packet through the chains of a table, beginning with the built-in chain of the hook. Skips rules that cannot be
 * parsed and chains that are not listed. By default, random matches do not match. Pure.
 */
export function traverse(
  hook: Hook,
  table: TableName,
  onPath: PacketOnPath,
  state: NodeState,
  draw: () => boolean = () => false,
): Traversal {
  const context: Context = {
    ...{ hook, table, onPath, state, draw },
    mark: onPath.mark,
    isMasqueraded: false,
    steps: [],
  };
  const end = walkChain(hook, context, 0);
  const verdict = end === "dropped" || end === "refused" ? end : "pass";
  const { isMasqueraded, mark, steps, translation, unless } = context;
  const last = steps.pop();
  if (last !== undefined) {
    steps.push(verdict === "pass" || unless === undefined ? last : { ...last, unless });
  }
  return {
    ...{ verdict, isMasqueraded, mark, steps },
    ...(translation === undefined ? {} : { translation }),
  };
}

/**
 * A hook, with either an iptables table that has a chain for it or a priority range of other software's nftables
 * chains.
 */
export type Place = readonly [hook: Hook, table: TableName | Priorities];

/** Follows a packet through several tables until one of them rejects or drops it. */
export function passTables(
  places: readonly Place[],
  onPath: PacketOnPath,
  state: NodeState,
): Omit<Traversal, "translation"> {
  const steps: Step[] = [];
  let { mark } = onPath;
  let isMasqueraded = false;
  for (const [hook, table] of places) {
    const here = { ...onPath, mark };
    const passed =
      typeof table === "string"
        ? traverse(hook, table, here, state)
        : { ...passNft(hook, table, here, state), mark };
    if (typeof table === "string") steps.push(...rivalSteps(hook, table, here, state, passed));
    steps.push(...passed.steps);
    mark = passed.mark;
    isMasqueraded ||= passed.isMasqueraded;
    if (passed.verdict !== "pass") return { verdict: passed.verdict, steps, mark, isMasqueraded };
  }
  return { verdict: "pass", steps, mark, isMasqueraded };
}

/**
 * If nftables chains with the table's priority would stop the packet differently, returns their steps. Of these chains,
 * the kernel calls the most recently created one first, but it does not report the order of creation.
 */
function rivalSteps(
  hook: Hook,
  table: TableName,
  onPath: PacketOnPath,
  state: NodeState,
  { verdict }: Pick<Traversal, "verdict">,
): readonly Step[] {
  const priority = priorities[table];
  const rival = passNft(hook, [priority, priority + 1], onPath, state);
  if (verdict === "pass" || rival.verdict === "pass" || rival.verdict === verdict) return [];
  return rival.steps.map((step) => ({ ...step, isMaybe: true }));
}

const everyPriority: Priorities = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
/** NF_IP_PRI_*: the priorities of the iptables tables. */
const priorities = { raw: -300, mangle: -150, nat: -100, filter: 0 } as const;

/** The chains that a received or sent packet traverses before nat. */
export function firstPlaces(hook: "PREROUTING" | "OUTPUT"): readonly Place[] {
  return [
    ...(hook === "PREROUTING" ? [["INGRESS", everyPriority] as const] : []),
    [hook, [everyPriority[0], priorities.raw]],
    [hook, "raw"],
    [hook, [priorities.raw, priorities.mangle]],
    [hook, "mangle"],
    [hook, [priorities.mangle, priorities.nat]],
  ];
}

/**
 * The hooks of the filter table. A packet from this node to itself traverses OUTPUT and, through the loopback link,
 * INPUT.
 */
export function filterHooks(
  { isFromNode }: PacketOnPath["packet"],
  isForNode: boolean,
): readonly Hook[] {
  if (!isFromNode) return [isForNode ? "INPUT" : "FORWARD"];
  return isForNode ? ["OUTPUT", "INPUT"] : ["OUTPUT"];
}

/**
 * NF_IP_PRI_NAT_SRC - 1: the priority at which IPVS intercepts packets in INPUT. A chain with the same priority is called
 * before IPVS if it was created later, which the kernel does not report.
 */
const ipvsPriority = 99;

/** The chains that a packet traverses after nat. If `isForIpvs`, only the chains before IPVS intercepts the packet. */
export function filterPlaces(hooks: readonly Hook[], isForIpvs = false): readonly Place[] {
  return hooks.flatMap((hook): readonly Place[] => {
    const filter: readonly Place[] = isForIpvs
      ? [
          [hook, "filter"],
          [hook, [priorities.filter, ipvsPriority]],
          [hook, [ipvsPriority, ipvsPriority + 1, "unsure"]],
        ]
      : [
          [hook, "filter"],
          [hook, [priorities.filter, everyPriority[1]]],
        ];
    if (hook === "OUTPUT") return [[hook, [priorities.nat, priorities.filter]], ...filter];
    return [
      ["PREROUTING", [priorities.nat, everyPriority[1]]],
      [hook, [everyPriority[0], priorities.mangle]],
      [hook, "mangle"],
      [hook, [priorities.mangle, priorities.filter]],
      ...filter,
    ];
  });
}

/** All OUTPUT chains except nat. IPVS sends packets through them whose destination is already the endpoint. */
export const outputPlaces: readonly Place[] = [
  ...firstPlaces("OUTPUT"),
  ...filterPlaces(["OUTPUT"]),
];

/** The chains that see packets which IPVS delivers to a local process. */
export const deliveryPlaces: readonly Place[] = [["INPUT", [ipvsPriority + 1, everyPriority[1]]]];

/** The chains that a packet traverses before it leaves, except nat. */
export const lastPlaces: readonly Place[] = [
  ["POSTROUTING", [everyPriority[0], priorities.mangle]],
  ["POSTROUTING", "mangle"],
  ["POSTROUTING", [priorities.mangle, everyPriority[1]]],
];

/** The chains of the output link. They see the packet's final addresses. */
export const linkPlaces: readonly Place[] = [["EGRESS", everyPriority]];

/** `return` means that the calling chain continues after the jump. */
type End = "accept" | "dropped" | "refused" | "return";

/** If `isCertain` is false, the packet may not reach this chain, so its rules do not determine the verdict. */
function walkChain(chain: string, context: Context, depth: number, isCertain = true): End {
  const { hook, table, state, draw } = context;
  const rules = depth > maxDepth ? [] : (state.chains.get(chainKey(table, chain)) ?? []);
  const hasInLink = hook === "PREROUTING" || hook === "INPUT" || hook === "FORWARD";
  const isTracked = table !== "raw" || isTrackedEarly(hook, context.onPath);
  for (const { text, rule, matches = rule?.matches, others = [], isGoto } of rules) {
    const at = {
      hook,
      onPath: { ...context.onPath, mark: context.mark },
      hasInLink,
      isTracked,
      draw,
    };
    const known = matches?.filter((match) => !isUnknownLink(match, chain, at));
    const entries = known === undefined ? [] : matchRule({ matches: known }, at, state);
    if (entries === undefined) continue;
    const isOtherMatch = matchOthers(others, at, state);
    if (isOtherMatch === false) continue;
    const isMatch = known?.length === matches?.length && known !== undefined && isOtherMatch;
    const step = { hook, table, chain, rule: text, entries };
    if (rule !== undefined && isMatch && isCertain) {
      context.steps.push(step);
      const end = applyTarget(rule.target, context, depth);
      if (end !== undefined || isGoto === true) return end ?? "return";
    } else pushDoubt(step, rule?.target, context, depth);
  }
  return "return";
}

/**
 * Whether a match cannot be evaluated because the client's link is unknown. Excludes our own rules, which match only
 * pods' links.
 */
function isUnknownLink(match: Match, chain: string, { hasInLink, onPath }: PacketAtRule): boolean {
  const { isFromNode, inLink } = onPath.packet;
  return (
    match.kind === "in-interface" &&
    match.name !== "lo" &&
    hasInLink &&
    !isFromNode &&
    inLink === "" &&
    !chain.startsWith("KUBE-")
  );
}

/** Records a rule that may match, or whose target is not evaluated. */
function pushDoubt(step: Step, target: Target | undefined, context: Context, depth: number): void {
  switch (target?.kind) {
    case "none":
      return;
    case "jump":
      walkChain(target.chain, context, depth + 1, false);
      return;
    case "accept":
    case "return":
    case "xmark":
      context.unless ??= `${step.table} ${step.chain}: ${step.rule}`;
      return;
    default:
      context.steps.push({ ...step, isMaybe: true });
  }
}

/** Applies a rule's target. Returns undefined if evaluation continues with the next rule. */
function applyTarget(target: Target, context: Context, depth: number): End | undefined {
  switch (target.kind) {
    case "accept":
    case "return":
      return target.kind;
    case "drop":
      return "dropped";
    case "reject":
      return "refused";
    case "none":
      return undefined;
    case "translate":
    case "redirect":
      context.translation = target;
      return "accept";
    case "masquerade":
      context.isMasqueraded = true;
      return "accept";
    case "xmark":
      context.mark = ((context.mark & ~target.mask) ^ target.value) >>> 0;
      return undefined;
    case "jump": {
      const end = walkChain(target.chain, context, depth + 1);
      return end === "return" ? undefined : end;
    }
  }
}
