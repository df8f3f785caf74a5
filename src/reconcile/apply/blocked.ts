/** Which changes must not be made after others were not. Pure. */
import { familyOf } from "../../base/ip.ts";
import { setFor } from "../../plan/sets.ts";
import { setEntryParts } from "../../state/set-entry.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import type { Change, ChangeKind, ChangeOf } from "../change.ts";
import { subjectOf } from "../kinds/kinds.ts";
import { isLimitSet } from "../limits.ts";
import { nodePortSetRoles } from "../ownership/set-marks.ts";
import { guarded, limited, type Relations } from "../relations.ts";
import { type Subject, subjectKey } from "../subject.ts";

const guardedRemovals: ReadonlySet<ChangeKind> = new Set([
  "virtual-server-remove",
  "address-remove",
  "link-remove",
]);

/** Changes that were not made so far, by the key of their subject: rejected, pending, or of unknown outcome. */
export class NotMade {
  readonly #changes = new Map<string, Change>();

  get isEmpty(): boolean {
    return this.#changes.size === 0;
  }

  note(change: Change): void {
    this.#changes.set(subjectKey(subjectOf(change)), change);
  }

  /** It is tried again. */
  forget(change: Change): void {
    this.#changes.delete(subjectKey(subjectOf(change)));
  }

  values(): Iterable<Change> {
    return this.#changes.values();
  }

  /** Whether this change has to wait: for a dependency that does not exist, or for dependents that are still to go. */
  blocks(change: Change, relations: Relations): boolean {
    switch (change.kind) {
      case "set-create":
      case "virtual-server-create":
      case "virtual-server-update":
      case "real-server-create":
      case "real-server-update":
      case "address-add":
      case "entry-add":
        return !relations.canBeCreated(subjectOf(change));
      case "set-destroy":
        // A set shows whose a virtual server is: while one of ours could not be removed, its sets stay.
        return change.reason === "unwanted" && this.#has("virtual-server-remove");
      case "virtual-server-remove":
        return this.#isBound(change);
      case "entry-remove":
        return this.#isStillNamed(change);
      case "chain-write":
        return change.reason === "loosens" && this.#isAnyLeft();
      case "chain-remove":
      case "jump-remove":
        return change.reason === "unwanted" && this.#isAnyLeft();
      default:
        return false;
    }
  }

  /** Without its address nothing reaches it; without it, packets to the address would end at the node itself. */
  #isBound({ before }: ChangeOf<"virtual-server-remove">): boolean {
    return this.#has("link-remove") || this.#isLeft({ type: "address", address: before.address });
  }

  /** Something that rules guard could not be removed. */
  #isAnyLeft(): boolean {
    return [...this.#changes.values()].some(
      (change) =>
        guardedRemovals.has(change.kind) ||
        (change.kind === "entry-remove" && isLimitSet(change.set.name)),
    );
  }

  #has(kind: ChangeKind): boolean {
    return [...this.#changes.values()].some((change) => change.kind === kind);
  }

  #isLeft(subject: Subject): boolean {
    return this.#changes.get(subjectKey(subject))?.kind.endsWith("-remove") === true;
  }

  /** An entry marks a virtual server as ours, or restricts it, so it outlives it; the guard of an address outlives it. */
  #isStillNamed({ set, entry, reason }: ChangeOf<"entry-remove">): boolean {
    if (reason !== "unwanted") return false;
    const { address, port } = setEntryParts(entry);
    if (address === undefined) return this.#isPortLeft(set.name, port ?? 0);
    return [...limited(entry), ...guarded(entry)].some((dependent) => this.#isLeft(dependent));
  }

  #isPortLeft(setName: string, port: number): boolean {
    return [...this.#changes.values()].some(
      (change) =>
        change.kind === "virtual-server-remove" &&
        change.before.port === port &&
        nodePortSetName(change.before) === setName,
    );
  }
}

function nodePortSetName({ protocol, address }: VirtualServerId): string {
  return setFor(nodePortSetRoles[protocol], familyOf(address)).name;
}
