/** Which changes must not be made after others were refused. Pure. */
import { familyOf, type IpAddress } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import { type SetRole, setFor } from "../../plan/sets.ts";
import {
  addressEntry,
  addressPortEntry,
  portEntry,
  type SetEntry,
  setEntryParts,
} from "../../state/set-entry.ts";
import { type VirtualServerId, virtualServerKey } from "../../state/virtual-server.ts";
import type { Change, ChangeOf } from "../change.ts";
import type { CachedState } from "../observed/cached-state.ts";
import { addressSetRoles, nodePortSetRoles } from "../ownership/set-marks.ts";

/** What was not done so far: refused, blocked, or of unknown outcome. */
export class NotDone {
  readonly #createdServers = new Set<string>();
  readonly #removedServers = new Map<string, VirtualServerId>();
  readonly #addedEntries = new Set<string>();
  readonly #removedAddresses = new Set<IpAddress>();
  readonly #absentSets = new Set<string>();
  readonly #incompleteSets = new Set<string>();
  #isLinkAbsent = false;
  #isEmpty = true;

  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  note(change: Change): void {
    this.#isEmpty = false;
    switch (change.kind) {
      case "virtual-server-create":
        this.#createdServers.add(change.key);
        break;
      case "virtual-server-remove":
        this.#removedServers.set(change.key, change.before);
        break;
      case "entry-add":
        this.#noteEntry(change);
        break;
      case "address-remove":
        this.#removedAddresses.add(change.address);
        break;
      case "set-create":
        this.#absentSets.add(change.set.name);
        break;
      case "set-destroy":
        // What stands in the place of our set cannot hold our entries.
        if (change.reason === "incompatible-set") this.#absentSets.add(change.setName);
        break;
      case "link-create":
        this.#isLinkAbsent = true;
        break;
      default:
        break;
    }
  }

  /**
   * Says whether a change has to wait for what was not done. `isServed`: the kernel has, or is about to get, a virtual server
   * of ours on this address.
   */
  blocks(change: Change, cached: CachedState, isServed: (address: IpAddress) => boolean): boolean {
    switch (change.kind) {
      case "real-server-create":
      case "real-server-update":
      case "real-server-remove":
        return this.#createdServers.has(change.key);
      case "virtual-server-create":
        return this.#isUnmarked(change.after);
      case "address-add":
        return this.#isLinkAbsent || this.#isUnguarded(change.address) || !isServed(change.address);
      case "entry-add":
        return this.#lacksSet(change, cached);
      case "set-swap":
        return [this.#absentSets, this.#incompleteSets].some((names) =>
          names.has(change.temporary.name),
        );
      case "set-destroy":
        // A set shows whose a virtual server is: while one of ours could not be removed, its sets stay.
        return change.reason === "unwanted" && this.#removedServers.size > 0;
      case "entry-remove":
        return this.#isStillNamed(change);
      default:
        return false;
    }
  }

  /**
   * No virtual server while the entry that marks it as ours is refused: should the program end before the next sync, the
   * one after it would leave it to others. Nor while the one that restricts it to source ranges is: it would be open to
   * everybody. Where the whole set cannot be had, Services are served without it.
   */
  #isUnmarked({ address, protocol, port }: VirtualServerId): boolean {
    if (this.#addedEntries.size === 0) return false;
    const family = familyOf(address);
    const entry = addressPortEntry(address, protocol, port);
    const isMissing = (role: SetRole, member: SetEntry): boolean =>
      this.#addedEntries.has(memberKey(setFor(role, family).name, member));
    if (addressSetRoles.some((role) => isMissing(role, entry))) return true;
    if (isMissing("loadBalancerFirewall", entry)) return true;
    return isMissing(nodePortSetRoles[protocol], protocol === "SCTP" ? entry : portEntry(port));
  }

  /** Without its entry in KUBE-IPVS-IPS the node's own services would answer on an address. */
  #isUnguarded(address: IpAddress): boolean {
    const { name } = setFor("ipvsIps", familyOf(address));
    return this.#addedEntries.has(memberKey(name, addressEntry(address)));
  }

  #lacksSet({ set: { name } }: ChangeOf<"entry-add">, cached: CachedState): boolean {
    const isThere = cached.setEntries.has(name) || cached.temporarySets.has(name);
    return !isThere && this.#absentSets.has(name);
  }

  /** A set that cannot be had at all marks and guards nothing. */
  #noteEntry({ set: { name }, entry }: ChangeOf<"entry-add">): void {
    if (this.#absentSets.has(name)) return;
    this.#addedEntries.add(memberKey(name, entry));
    this.#incompleteSets.add(name);
  }

  /** An entry marks a virtual server as ours, so it outlives it; the guard of an address outlives the address. */
  #isStillNamed({ set, entry }: ChangeOf<"entry-remove">): boolean {
    const { address, protocol, port } = setEntryParts(entry);
    if (address === undefined) return this.#hasNodePort(set.name, port ?? 0);
    if (protocol === undefined || port === undefined) return this.#removedAddresses.has(address);
    return this.#removedServers.has(virtualServerKey({ address, protocol, port }));
  }

  #hasNodePort(setName: string, port: number): boolean {
    return [...this.#removedServers.values()].some(
      (id) => id.port === port && nodePortSetName(id) === setName,
    );
  }
}

function nodePortSetName({
  protocol,
  address,
}: {
  readonly protocol: Protocol;
  readonly address: IpAddress;
}): string {
  return setFor(nodePortSetRoles[protocol], familyOf(address)).name;
}

function memberKey(setName: string, entry: SetEntry): string {
  return `${setName} ${entry}`;
}
