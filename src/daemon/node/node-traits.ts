import { isDeepStrictEqual } from "node:util";
import type { ServiceRecord } from "../../api/objects.ts";
import type { Nodes } from "../../api/source.ts";
import { asksNodeWeights, preferredLabel } from "../../model/annotations.ts";
import type { NodeGroup } from "../../plan/tuning-facts.ts";

/** The weights and labels of Nodes that Services need for their endpoints. */
export class NodeTraits {
  /** Number of Services that ask for Node weights. */
  #weightRequests = 0;
  /** Labels that Services name, each with the number of those Services. */
  readonly #labelRequests = new Map<string, number>();
  #weights: ReadonlyMap<string, number> = new Map();
  #groups: ReadonlyMap<string, NodeGroup> = new Map();

  get areWeightsNeeded(): boolean {
    return this.#weightRequests > 0;
  }

  get labels(): ReadonlySet<string> {
    return new Set(this.#labelRequests.keys());
  }

  /** The weights of Nodes that have one. Returns the same object while they are unchanged. */
  get weights(): ReadonlyMap<string, number> {
    return this.#weights;
  }

  /**
   * The Nodes with this node's value of each label that a Service names. A label is missing until Nodes are listed with
   * it. Returns the same object while the groups are unchanged.
   */
  get groups(): ReadonlyMap<string, NodeGroup> {
    return this.#groups;
  }

  /** Returns whether the labels that Services name changed. */
  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): boolean {
    if (current !== undefined && asksNodeWeights(current)) this.#weightRequests += 1;
    if (previous !== undefined && asksNodeWeights(previous)) this.#weightRequests -= 1;
    const before = previous && preferredLabel(previous);
    const after = current && preferredLabel(current);
    if (before === after) return false;
    const requests = this.#labelRequests;
    if (after !== undefined) requests.set(after, (requests.get(after) ?? 0) + 1);
    if (before === undefined) return true;
    const rest = (requests.get(before) ?? 1) - 1;
    if (rest > 0) requests.set(before, rest);
    else requests.delete(before);
    return true;
  }

  /**
   * Takes all Nodes, which have at least the labels in `listed`, or all labels if that is undefined. Returns whether
   * {@link weights} or {@link groups} changed.
   */
  noteNodes(nodes: Nodes, nodeName: string, listed: ReadonlySet<string> | undefined): boolean {
    const weights = new Map<string, number>();
    for (const [name, { weight }] of nodes) if (weight !== undefined) weights.set(name, weight);
    const labels = [...this.labels].filter((label) => listed?.has(label) !== false);
    const groups = new Map(labels.map((label) => [label, groupOf(label, nodeName, nodes)]));
    const areWeightsEqual = isDeepStrictEqual(weights, this.#weights);
    const areGroupsEqual = isDeepStrictEqual(groups, this.#groups);
    if (!areWeightsEqual) this.#weights = weights;
    if (!areGroupsEqual) this.#groups = groups;
    return !areWeightsEqual || !areGroupsEqual;
  }
}

function groupOf(label: string, nodeName: string, nodes: Nodes): NodeGroup {
  const own = nodes.get(nodeName)?.labels?.[label];
  const values = [...nodes].flatMap(([name, { labels }]) => {
    const value = labels?.[label];
    return value === undefined ? [] : [{ name, value }];
  });
  const near = values.filter(({ value }) => value === own);
  return {
    nodeNames: new Set(near.map(({ name }) => name)),
    nodeCount: nodes.size,
    isLabelUsed: values.length > 0,
  };
}
