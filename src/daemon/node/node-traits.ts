import { isDeepStrictEqual } from "node:util";
import type { ServiceRecord } from "../../api/objects.ts";
import type { Nodes } from "../../api/source.ts";
import { none } from "../../base/none.ts";
import { UseCounts } from "../../base/use-counts.ts";
import { neededNodeLabels, tunnelName } from "../../model/annotations.ts";
import type { NodeGroup, TuningFacts } from "../../plan/tuning-facts.ts";

/** The weights, labels and addresses of Nodes that Services need for their endpoints. */
export class NodeTraits {
  /** Labels that Services need. */
  readonly #needed = new UseCounts<string>();
  #weights: ReadonlyMap<string, number> = new Map();
  #groups: ReadonlyMap<string, NodeGroup> = new Map();
  /** Names of Services that need the addresses of all Nodes. */
  readonly #tunneled = new Set<string>();
  #addresses: TuningFacts["nodeAddresses"] = new Map();

  get labels(): ReadonlySet<string> {
    return new Set(this.#needed.values());
  }

  /** The weights of the Nodes that have one. Returns the same object while the weights are unchanged. */
  get weights(): ReadonlyMap<string, number> {
    return this.#weights;
  }

  /**
   * For each label that a Service names, the Nodes that have the same value of the label as this node. A label is
   * missing until Nodes have been listed with it. Returns the same object while the groups are unchanged.
   */
  get groups(): ReadonlyMap<string, NodeGroup> {
    return this.#groups;
  }

  /** Whether a Service needs anything from the list of Nodes. */
  get isNeeded(): boolean {
    return this.labels.size > 0 || this.#tunneled.size > 0;
  }

  /**
   * The addresses of other Nodes, by name. Empty unless a Service needs them. Returns the same object while they are
   * unchanged.
   */
  get addresses(): TuningFacts["nodeAddresses"] {
    return this.#addresses;
  }

  /** Returns whether {@link labels} or {@link addresses} may have changed. */
  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): boolean {
    const labelsOf = (service: ServiceRecord | undefined): readonly string[] =>
      service === undefined ? none : neededNodeLabels(service);
    const [before, after] = [labelsOf(previous), labelsOf(current)];
    const isTunneled = current?.annotations?.[tunnelName]?.trim() === "tunnel";
    const name = (current ?? previous)?.name ?? "";
    const wasTunneled = this.#tunneled.has(name);
    if (isTunneled) this.#tunneled.add(name);
    else this.#tunneled.delete(name);
    if (before.length + after.length === 0) return isTunneled !== wasTunneled;
    this.#needed.replace(before, after);
    return true;
  }

  /**
   * Records all Nodes. They have at least the labels in `listed`, or all labels if `listed` is undefined. Returns
   * whether {@link weights}, {@link groups} or {@link addresses} changed.
   */
  noteNodes(nodes: Nodes, nodeName: string, listed: ReadonlySet<string> | undefined): boolean {
    const weights = new Map<string, number>();
    for (const [name, { weight }] of nodes) if (weight !== undefined) weights.set(name, weight);
    const labels = [...this.labels].filter((label) => listed?.has(label) !== false);
    const groups = new Map(labels.map((label) => [label, groupOf(label, nodeName, nodes)]));
    const areWeightsEqual = isDeepStrictEqual(weights, this.#weights);
    const areGroupsEqual = isDeepStrictEqual(groups, this.#groups);
    const others =
      this.#tunneled.size === 0 ? [] : [...nodes].filter(([name]) => name !== nodeName);
    const addresses = new Map(others.map(([name, one]) => [name, one.addresses] as const));
    const areAddressesEqual = isDeepStrictEqual(addresses, this.#addresses);
    if (!areAddressesEqual) this.#addresses = addresses;
    if (!areWeightsEqual) this.#weights = weights;
    if (!areGroupsEqual) this.#groups = groups;
    return !areWeightsEqual || !areGroupsEqual || !areAddressesEqual;
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
