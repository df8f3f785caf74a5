import type { NodeRecord } from "../../api/objects.ts";
import type { NodeWeights } from "../../api/source.ts";

/** The weights of all Nodes: of others as listed last, of this one as its own object says, which is newer. */
export class AllNodeWeights {
  #listed: NodeWeights | undefined;
  #all: NodeWeights = new Map();

  /** The same object while nothing in it differs. `own` undefined: it was never seen. */
  of(listed: NodeWeights, own: NodeRecord | undefined): NodeWeights {
    if (own === undefined || listed.get(own.name) === own.weight) return listed;
    if (this.#listed === listed && this.#all.get(own.name) === own.weight) return this.#all;
    const all = new Map(listed);
    if (own.weight === undefined) all.delete(own.name);
    else all.set(own.name, own.weight);
    this.#listed = listed;
    this.#all = all;
    return all;
  }
}
