/**
 * Overlapping networks. Pure. The kernel rejects overlapping intervals, but a Service's source ranges may contain each
 * other. A network inside a larger network of the same virtual server matches no additional packets. It is stored in a
 * second set, which no rule uses. There, it can be listed, and it moves to the first set when the larger network is
 * removed.
 */
import { cidrText, parseCidr } from "../../base/ip.ts";
import { type SetEntry, setEntryParts } from "../../state/set-entry.ts";
import type { EntryChange } from "../kernel.ts";

export type Place = "matched" | "covered";

/** The place of each entry, by virtual server. */
export type Places = ReadonlyMap<string, ReadonlyMap<SetEntry, Place>>;

export interface IndexedChange extends Pick<EntryChange, "kind" | "entry"> {
  readonly index: number;
}

export interface PlacedChange extends Pick<EntryChange, "kind" | "entry"> {
  readonly place: Place;
  /** Indices of the changes that require this one. */
  readonly indices: readonly number[];
}

/** The places of all of a set's entries, given the entries of the two kernel sets. */
export function placesBefore(
  matched: readonly SetEntry[],
  covered: readonly SetEntry[],
): Map<string, Map<SetEntry, Place>> {
  const places = new Map<string, Map<SetEntry, Place>>();
  const note = (entry: SetEntry, place: Place): void => {
    const server = serverOf(entry);
    const ofServer = places.get(server) ?? new Map<SetEntry, Place>();
    places.set(server, ofServer.set(entry, place));
  };
  for (const entry of matched) note(entry, "matched");
  for (const entry of covered) note(entry, "covered");
  return places;
}

/**
 * The changes to both sets, to be executed in one transaction, and the new places of all affected virtual servers'
 * entries. Removals precede additions.
 */
export function placeChanges(
  before: Places,
  changes: readonly IndexedChange[],
): { readonly placed: readonly PlacedChange[]; readonly after: Places } {
  const removed: PlacedChange[] = [];
  const added: PlacedChange[] = [];
  const after = new Map<string, ReadonlyMap<SetEntry, Place>>();
  for (const [server, ofServer] of Map.groupBy(changes, ({ entry }) => serverOf(entry))) {
    const places = before.get(server) ?? new Map<SetEntry, Place>();
    const wanted = placesOf(withChanges(places.keys(), ofServer));
    const indices = ofServer.map(({ index }) => index);
    after.set(server, wanted);
    for (const [entry, place] of places) {
      if (wanted.get(entry) !== place)
        removed.push({ kind: "entry-remove", entry, place, indices });
    }
    for (const [entry, place] of wanted) {
      if (places.get(entry) !== place) added.push({ kind: "entry-add", entry, place, indices });
    }
  }
  return { placed: [...removed, ...added], after };
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

function placesOf(entries: ReadonlySet<SetEntry>): ReadonlyMap<SetEntry, Place> {
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
