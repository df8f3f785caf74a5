/** Finds changes that must be withheld because other changes were not made. Pure. */
import { familyOf } from "../../base/ip.ts";
import { rangesChain } from "../../plan/range-rules.ts";
import { setFor } from "../../plan/sets.ts";
import { tunnelChain } from "../../plan/tunnel-rules.ts";
import { setEntryFields } from "../../state/set-entry.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import type { Change, ChangeKind, ChangeOf } from "../change.ts";
import { subjectOf } from "../kinds/kinds.ts";
import { isLimitSet } from "../limits.ts";
import { nodePortSetRoles } from "../ownership/set-marks.ts";
import { guarded, limited } from "../relation-subjects.ts";
import type { Relations } from "../relations.ts";
import { type Subject, type SubjectKey, subjectKey } from "../subject.ts";

const guardedRemovals: ReadonlySet<ChangeKind> = new Set([
  "virtual-server-remove",
  "address-remove",
  "link-remove",
]);

/** Changes that have not been made: rejected, pending, or with an unknown outcome. */
export class NotMade {
  readonly #changes = new Map<SubjectKey, Change>();

  get isEmpty(): boolean {
    return this.#changes.size === 0;
  }

  note(change: Change): void {
    this.#changes.set(subjectKey(subjectOf(change)), change);
  }

  /** Removes the change, because it is about to be retried. */
  forget(change: Change): void {
    this.#changes.delete(subjectKey(subjectOf(change)));
  }

  values(): Iterable<Change> {
    return this.#changes.values();
  }

  /** Whether this change must wait because a dependency is missing, or because dependents have not been removed yet. */
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
        // The entries in the sets identify virtual servers as ours, so the sets remain if one of our virtual servers
        // could not be removed.
        return change.reason === "unwanted" && this.#has("virtual-server-remove");
      case "virtual-server-remove":
        return this.#isBound(change) || this.#isMarked(change);
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

  /**
   * Whether the virtual server's address could not be removed. The virtual server then remains, because packets to the
   * address would otherwise be delivered to the node itself.
   */
  #isBound({ before }: ChangeOf<"virtual-server-remove">): boolean {
    return this.#has("link-remove") || this.#isLeft({ type: "address", address: before.address });
  }

  /**
   * Whether rules may still mark packets for a port range's virtual server. The virtual server then remains, because
   * these packets would otherwise be delivered to the node itself. A withdrawal need not wait, because it removes the
   * address first.
   */
  #isMarked({ before, reason }: ChangeOf<"virtual-server-remove">): boolean {
    if (before.protocol !== "FWM" || reason === "withheld") return false;
    const family = familyOf(before.address);
    return [rangesChain, tunnelChain].some((chainName) => {
      const chain = { type: "chain", family, table: "mangle", chainName } as const;
      return this.#changes.get(subjectKey(chain))?.kind === "chain-write";
    });
  }

  /** Whether a resource that rules protect could not be removed. */
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

  /**
   * Whether a dependent of the entry still exists. Entries that identify or restrict a virtual server must outlive it,
   * and address guard entries must outlive the address.
   */
  #isStillNamed({ set, entry, reason }: ChangeOf<"entry-remove">): boolean {
    if (reason !== "unwanted") return false;
    const { address, port } = setEntryFields(entry);
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

function nodePortSetName({ protocol, address }: VirtualServerId): string | undefined {
  if (protocol === "FWM") return undefined;
  return setFor(nodePortSetRoles[protocol], familyOf(address)).name;
}
