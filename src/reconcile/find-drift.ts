/**
 * What others changed: what a sync has to change although we believed it to be right after our last write.
 * Looking at the work alone costs nothing where nothing is wrong, and leaves out by itself what leads to
 * where we want to go: a write of ours whose answer was lost, a drain, virtual servers of others. Pure.
 */
import type { IpFamily } from "../base/ip.ts";
import type { AddressChange, SetChange } from "../kernel/kernel.ts";
import { dummyLinkName } from "../state/dummy-link.ts";
import type { ObservedIpSet } from "../state/ip-set.ts";
import type { DesiredView } from "./desired-view.ts";
import { absent, type Drift, present } from "./drift.ts";
import { driftOfRules } from "./drift-of-rules.ts";
import { driftOfServer } from "./drift-of-servers.ts";
import type { KnownRules, KnownState } from "./known-state.ts";
import type { Work } from "./sync-context.ts";

export interface DriftView {
  /** As believed after the last write. */
  readonly before: KnownState;
  /** As found now. */
  readonly after: KnownState;
  readonly desired: DesiredView;
  readonly work: Work;
  /** As the planned rules will be printed. */
  readonly wantedRules: ReadonlyMap<IpFamily, KnownRules>;
  /** Keys of the virtual servers that were ours; what becomes of others is no drift. */
  readonly ours: ReadonlySet<string>;
}

/** Everything that others changed between two observations. */
export function findDrift(view: DriftView): readonly Drift[] {
  const { before, after, desired, work, wantedRules, ours } = view;
  return [
    ...driftOfLink(view),
    ...driftOfSets(view),
    ...work.servers
      .filter(({ key }) => ours.has(key) || !before.virtualServers.has(key))
      .flatMap(({ key }) =>
        driftOfServer({
          key,
          before: before.virtualServers.get(key),
          after: after.virtualServers.get(key),
          wanted: desired.virtualServer(key),
        }),
      ),
    ...[...wantedRules].flatMap(([family, wanted]) => {
      const rules = { before: before.rules.get(family), after: after.rules.get(family), wanted };
      return driftOfRules(family, rules);
    }),
    ...work.sysctls.flatMap(({ path }) => driftOfSysctl(path, view)),
  ];
}

/** With the link go its addresses: one thing. */
function driftOfLink({ before, after, work }: DriftView): readonly Drift[] {
  if (before.hasLink && !after.hasLink) {
    const count = before.addresses.size;
    return [{ kind: "link", subject: dummyLinkName, before: `${count} addresses`, after: absent }];
  }
  return [...work.addedAddresses, ...work.removedAddresses]
    .filter((change) => before.addresses.has(change.address) === (change.kind === "add"))
    .map((change) => ({ kind: "address", subject: change.address, ...taken(change) }));
}

/** A set that is gone or made anew is one thing, whatever was in it. */
function driftOfSets({ before, after, work }: DriftView): readonly Drift[] {
  const remade = [...before.sets].flatMap(([name, header]): readonly Drift[] => {
    const [was, is] = [headerText(header), headerText(after.sets.get(name))];
    return was === is ? [] : [{ kind: "set", subject: name, before: was, after: is }];
  });
  const remadeNames = new Set(remade.map(({ subject }) => subject));
  const entries = [...work.addedEntries, ...work.removedEntries]
    .filter(({ kind, set, entry }) => before.hasEntry(set.name, entry) === (kind === "add"))
    .filter(({ set }) => !remadeNames.has(set.name))
    .map((change): Drift => {
      const subject = `${change.set.name} ${change.entry}`;
      return { kind: "entry", subject, ...taken(change) };
    });
  return [...remade, ...entries];
}

function headerText(header: ObservedIpSet | undefined): string {
  if (header === undefined) return absent;
  const { type, family, maxElements, hasOptions } = header;
  const isHash = type.startsWith("hash:");
  const words = [type, isHash ? family : "", `maxelem ${maxElements}`, hasOptions ? "options" : ""];
  return words.filter(Boolean).join(" ");
}

function driftOfSysctl(path: string, { before, after }: DriftView): readonly Drift[] {
  const [was, is] = [before.sysctls.get(path), after.sysctls.get(path)];
  if (was === is) return [];
  return [{ kind: "sysctl", subject: path, before: was ?? absent, after: is ?? absent }];
}

/** What we have to add, somebody took away. */
function taken({ kind }: SetChange | AddressChange): Pick<Drift, "before" | "after"> {
  return kind === "add" ? { before: present, after: absent } : { before: absent, after: present };
}
