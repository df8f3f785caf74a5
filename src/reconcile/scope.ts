/** Determines which keys a sync compares. The link, sets, rules and sysctls are few and always compared. Pure. */

import type { IpAddress } from "../base/ip.ts";
import type { ServiceName } from "../base/service-name.ts";
import type { DirtyKeys, FormerKey } from "../plan/dirty-keys.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { ServerKey } from "../state/virtual-server.ts";
import type { Differences } from "./observed/difference.ts";
import type { Subject } from "./subject.ts";

/** The keys to compare, to which keys are added between syncs. Undefined means all keys of that type. */
export class Scope {
  readonly #virtualServers = new Set<ServerKey>();
  readonly #setEntries = new Map<string, Set<SetEntry>>();
  readonly #addresses = new Set<IpAddress>();
  readonly #formerServices = new Map<FormerKey, ServiceName>();
  /** Touched keys that are not copied yet. A full comparison need not copy tens of thousands of them. */
  #marks: DirtyKeys[] = [];
  /** Sets whose observed parameters differ from the cached ones, or that have more capacity than necessary. */
  readonly resizableSets: Set<string> = new Set();
  areAllServers = false;
  areAllMembers = false;

  get virtualServers(): ReadonlySet<ServerKey> | undefined {
    if (this.areAllServers) return undefined;
    this.#takeMarks();
    return this.#virtualServers;
  }

  get setEntries(): ReadonlyMap<string, ReadonlySet<SetEntry>> | undefined {
    if (this.areAllMembers) return undefined;
    this.#takeMarks();
    return this.#setEntries;
  }

  get addresses(): ReadonlySet<IpAddress> | undefined {
    if (this.areAllMembers) return undefined;
    this.#takeMarks();
    return this.#addresses;
  }

  get isFull(): boolean {
    return this.areAllServers && this.areAllMembers;
  }

  /** A Service that no longer desires one of the keys; see {@link DirtyKeys.formerServices}. */
  formerService(subject: FormerKey): ServiceName | undefined {
    const marks = this.#marks.findLast(({ formerServices }) => formerServices.has(subject));
    return (marks?.formerServices ?? this.#formerServices).get(subject);
  }

  include(keys: DirtyKeys): void {
    // Merge the marks of failed syncs into the keys, so that they do not accumulate if the kernel cannot be read for
    // days.
    this.#takeMarks();
    this.#marks.push(keys);
  }

  includeDifferences({ servers, entries, addresses, sets }: Differences): void {
    for (const key of servers.keys()) this.includeServer(key);
    for (const [name, ofSet] of entries) {
      for (const entry of ofSet.keys()) this.includeEntry(name, entry);
    }
    for (const address of addresses.keys()) this.includeAddress(address);
    for (const name of sets.keys()) this.resizableSets.add(name);
  }

  includeServer(key: ServerKey): void {
    this.#virtualServers.add(key);
  }

  includeEntry(setName: string, entry: SetEntry): void {
    const entries = this.#setEntries.get(setName);
    if (entries === undefined) this.#setEntries.set(setName, new Set([entry]));
    else entries.add(entry);
  }

  includeAddress(address: IpAddress): void {
    this.#addresses.add(address);
  }

  #takeMarks(): void {
    for (const keys of this.#marks) {
      for (const key of keys.virtualServers) this.#virtualServers.add(key);
      for (const [name, entries] of keys.setEntries) {
        for (const entry of entries) this.includeEntry(name, entry);
      }
      for (const address of keys.addresses) this.#addresses.add(address);
      for (const [subject, service] of keys.formerServices)
        this.#formerServices.set(subject, service);
    }
    this.#marks = [];
  }

  includeSubject(subject: Subject): void {
    switch (subject.type) {
      case "virtual-server":
      case "real-server":
      case "conntrack":
        this.includeServer(subject.virtualServer);
        break;
      case "entry":
        this.includeEntry(subject.setName, subject.entry);
        break;
      case "address":
        this.includeAddress(subject.address);
        break;
      default:
        break;
    }
  }
}

/** Whether planning touched the subject since the previous sync. If so, its changes do not wait for a retry. */
export function isTouched(subject: Subject, touched: DirtyKeys): boolean {
  switch (subject.type) {
    case "virtual-server":
    case "real-server":
    case "conntrack":
      return touched.virtualServers.has(subject.virtualServer);
    case "entry":
      return touched.setEntries.get(subject.setName)?.has(subject.entry) === true;
    case "address":
      return touched.addresses.has(subject.address);
    case "chain":
      return touched.rules.has(subject.family);
    default:
      return false;
  }
}
