/** Preference for endpoints on Nodes with the same value of a label as this node. Pure. */
import type { HostPort } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { preferenceName } from "../model/annotations.ts";
import type { Endpoint } from "../model/endpoints.ts";
import type { AnnotationProblem, Tuning } from "../model/tuning.ts";
import { realServerKey } from "../state/real-server.ts";
import type { TuningFacts } from "./tuning-facts.ts";
import { belongsTo, canaryOf, ownWeight } from "./weights.ts";

export const preferenceStates = ["applied", "overflow", "no-label", "nodes-unknown"] as const;

/** Whether a service port's preference applies on this node, and to which endpoints. */
export interface Preference {
  readonly state: (typeof preferenceStates)[number];
  /**
   * Keys of ready endpoints that are not chosen because others are preferred. For port ranges, each endpoint also has a
   * key with port 0.
   */
  readonly excluded: ReadonlySet<HostPort>;
}

/**
 * Applies the preference to the endpoints that remain after readiness and topology hints have been considered. The
 * canary group and the group of all other endpoints are considered separately, so that the canary keeps its share. Two
 * shares are compared: that of the preferred endpoints in the group's ready weight, and that of their Nodes among all
 * Nodes. The preference applies to a group if the first share is at least `minimumPercent` of the second. The
 * preference never leaves a group without weight. Undefined if the Service has no preference or no endpoint is chosen.
 */
export function preferenceFor(
  chosen: readonly Endpoint[],
  all: readonly Endpoint[],
  tuning: Tuning,
  facts: TuningFacts,
): Preference | undefined {
  const { preference } = tuning;
  if (preference === undefined || chosen.length === 0) return undefined;
  const group = facts.nodeGroups.get(preference.label);
  if (group === undefined) return { state: "nodes-unknown", excluded: new Set() };
  if (group.nodeNames.size === 0) return { state: "no-label", excluded: new Set() };
  const canary = canaryOf(tuning);
  const isCanary = (one: Endpoint): boolean => canary !== undefined && belongsTo(one, canary);
  const isNear = ({ nodeName }: Endpoint): boolean => group.nodeNames.has(nodeName);
  const weightOf = (endpoints: readonly Endpoint[]): number =>
    endpoints.reduce((sum, one) => sum + (one.isReady ? ownWeight(one, tuning, facts) : 0), 0);
  const isEnough = (side: boolean): boolean => {
    const isOnSide = (one: Endpoint): boolean => isCanary(one) === side;
    const near = weightOf(chosen.filter((one) => isOnSide(one) && isNear(one)));
    const total = weightOf(all.filter(isOnSide));
    const { minimumPercent } = preference;
    return (
      near > 0 && near * group.nodeCount * 100 >= minimumPercent * total * group.nodeNames.size
    );
  };
  const enough = { canary: isEnough(true), others: isEnough(false) };
  const isExcluded = (one: Endpoint): boolean =>
    !isNear(one) && (isCanary(one) ? enough.canary : enough.others);
  const keysOf = ({ key, address }: Endpoint): readonly HostPort[] => [
    key,
    realServerKey({ address, port: 0 }),
  ];
  const excluded = new Set(chosen.filter(isExcluded).flatMap(keysOf));
  return { state: enough.canary || enough.others ? "applied" : "overflow", excluded };
}

/** Reports a preference for a label that no Node has. */
export function preferenceProblems(
  { preference }: Tuning,
  value: string | undefined,
  { nodeGroups }: Pick<TuningFacts, "nodeGroups">,
): readonly AnnotationProblem[] {
  if (preference === undefined || nodeGroups.get(preference.label)?.isLabelUsed !== false)
    return none;
  const message = `no Node has the label ${preference.label}`;
  const reason = "annotation-without-effect";
  return [{ annotation: preferenceName, value: value ?? "", reason, message }];
}
