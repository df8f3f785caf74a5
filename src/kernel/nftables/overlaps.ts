/**
 * Overlapping networks. Pure. The kernel rejects overlapping intervals, but source ranges of
 * a Service may contain each other. A network that another network of the same virtual server covers matches no
 * additional packets. It is stored in a second set, which no rule uses, so that it can be listed, and so that it is
 * stored in the first set when the network that covers it is removed.
 */
import { cidrText, parseCidr } from "../../base/ip.ts";
import { type SetEntry, setEntryParts } from "../../state/set-entry.ts";
import type { EntryChange } from "../kernel.ts";

export type Place = "matched" | "covered";

/** The place of each entry of a set. */
export type Places = ReadonlyMap<SetEntry, Place>;

export interface IndexedChange extends Pick<EntryChange, "kind" | "entry"> {
  readonly index: number;
}

export interface PlacedChange extends Pick<EntryChange, "kind" | "entry"> {
  readonly place: Place;
  /** Indices of the changes that made this one necessary. */
  readonly indices: readonly number[];
}

/** The changes to both sets, to be executed in one transaction. Removals precede additions. */
export function placeChanges(
  before: Places,
  changes: readonly IndexedChange[],
): readonly PlacedChange[] {
  const entriesByServer = Map.groupBy(before.keys(), serverOf);
  const removed: PlacedChange[] = [];
  const added: PlacedChange[] = [];
  for (const [server, ofServer] of Map.groupBy(changes, ({ entry }) => serverOf(entry))) {
    const entries = entriesByServer.get(server) ?? [];
    const indices = ofServer.map(({ index }) => index);
    const after = placesOf(withChanges(entries, ofServer));
    for (const entry of entries) {
      const place = before.get(entry) ?? "matched";
      if (after.get(entry) !== place) removed.push({ kind: "entry-remove", entry, place, indices });
    }
    for (const [entry, place] of after) {
      if (before.get(entry) !== place) added.push({ kind: "entry-add", entry, place, indices });
    }
  }
  return [...removed, ...added];
}

function withChanges(
  entries: Iterable<SetEntry>,
  changes: readonly IndexedChange[],
): ReadonlySet<SetEntry> {
  const wanted = new Set(entries);
  for (const { kind, entry } of changes) {
    if (kind === "entry-add") wanted.add(entry);
    else wanted.delete(entry);
  }
  return wanted;
}

/** The virtual server of an entry: its text without the network. */
function serverOf(entry: SetEntry): string {
  return entry.slice(0, entry.lastIndexOf(",") + 1) || entry;
}

function placesOf(entries: ReadonlySet<SetEntry>): Places {
  const nets = new Map(
    [...entries].map((entry) => [
      entry,
      entry.includes(",") ? setEntryParts(entry).second : undefined,
    ]),
  );
  const texts = new Set([...nets.values()].map((net) => (net === undefined ? "" : cidrText(net))));
  const lengths = new Set([...nets.values()].map((net) => net?.prefixLength ?? 0));
  return new Map(
    [...nets].map(([entry, net]) => {
      const isCovered = [...lengths].some((length) => {
        if (net === undefined || length >= net.prefixLength) return false;
        const wider = parseCidr(`${net.address}/${length}`);
        return wider !== undefined && texts.has(cidrText(wider));
      });
      return [entry, isCovered ? "covered" : "matched"];
    }),
  );
}
