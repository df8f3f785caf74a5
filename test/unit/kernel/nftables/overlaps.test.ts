import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cidrContains, parseCidr } from "../../../../src/base/ip.ts";
import {
  type Place,
  placeChanges,
  placesBefore,
} from "../../../../src/kernel/nftables/overlaps.ts";
import { type SetEntry, setEntryParts } from "../../../../src/state/set-entry.ts";
import { seededRandom, seeds } from "../../../support/seeds.ts";

const wide = "10.96.0.1,tcp:80,10.0.0.0/8" as SetEntry;
const middle = "10.96.0.1,tcp:80,10.1.0.0/16" as SetEntry;
const host = "10.96.0.1,tcp:80,10.1.2.3" as SetEntry;
const elsewhere = "10.96.0.2,tcp:80,10.1.2.3" as SetEntry;

function placed(
  before: ReadonlyMap<SetEntry, Place>,
  changes: Parameters<typeof placeChanges>[1],
): ReturnType<typeof placeChanges>["placed"] {
  const inPlace = (place: Place): SetEntry[] =>
    [...before].flatMap(([entry, each]) => (each === place ? [entry] : []));
  return placeChanges(placesBefore(inPlace("matched"), inPlace("covered")), changes).placed;
}

type Kind = "entry-add" | "entry-remove";

function changed(
  before: readonly (readonly [SetEntry, Place])[],
  ...changes: readonly (readonly [Kind, SetEntry])[]
): readonly string[] {
  const indexed = changes.map(([kind, entry], index) => ({ kind, entry, index }));
  return placed(new Map(before), indexed).map(
    ({ kind, entry, place, indices }) => `${kind} ${place} ${entry} (${indices})`,
  );
}

describe("networks of one virtual server", () => {
  it("that do not contain each other are all matched", () => {
    assert.deepEqual(changed([[elsewhere, "matched"]], ["entry-add", middle]), [
      `entry-add matched ${middle} (0)`,
    ]);
  });

  it("are moved to the second set if a network contains them", () => {
    const before = [
      [middle, "matched"],
      [elsewhere, "matched"],
    ] as const;
    assert.deepEqual(changed(before, ["entry-add", wide]), [
      `entry-remove matched ${middle} (0)`,
      `entry-add covered ${middle} (0)`,
      `entry-add matched ${wide} (0)`,
    ]);
  });

  it("are moved back if the network that contained them is removed", () => {
    const before = [
      [wide, "matched"],
      [middle, "covered"],
      [host, "covered"],
    ] as const;
    assert.deepEqual(changed(before, ["entry-remove", wide]), [
      `entry-remove matched ${wide} (0)`,
      `entry-remove covered ${middle} (0)`,
      `entry-add matched ${middle} (0)`,
    ]);
  });

  it("change nothing if the last change restores them", () => {
    const before = [[wide, "matched"]] as const;
    assert.deepEqual(changed(before, ["entry-remove", wide], ["entry-add", wide]), []);
    assert.deepEqual(changed(before, ["entry-add", wide], ["entry-remove", middle]), []);
  });

  it("do not affect elements that no entry expresses, unless these are removed", () => {
    const raw = "0x0a-0x0b" as SetEntry;
    assert.deepEqual(changed([[raw, "matched"]], ["entry-add", middle], ["entry-remove", raw]), [
      `entry-remove matched ${raw} (1)`,
      `entry-add matched ${middle} (0)`,
    ]);
  });

  for (const seed of seeds({ short: 20, long: 500 })) {
    it(`never overlap, and none gets lost: seed ${seed}`, () => {
      const random = seededRandom(seed);
      const pick = (count: number): number => Math.floor(random() * count);
      const stored = new Map<SetEntry, Place>();
      const wanted = new Set<SetEntry>();
      for (let round = 0; round < 30; round += 1) {
        const changes = Array.from({ length: 1 + pick(5) }, (_, index) => {
          const net = parseCidr(`10.${pick(3)}.${pick(3)}.0/${8 + pick(4) * 8}`);
          const text =
            net?.prefixLength === 32 ? net.address : `${net?.address}/${net?.prefixLength}`;
          const entry = `10.96.0.${pick(2)},tcp:80,${text}` as SetEntry;
          const kind: Kind = pick(2) === 0 ? "entry-add" : "entry-remove";
          return { kind, entry, index };
        });
        for (const { kind, entry, place } of placed(stored, changes)) {
          if (kind === "entry-add") assert.ok(!stored.has(entry));
          else assert.equal(stored.get(entry), place);
          if (kind === "entry-add") stored.set(entry, place);
          else stored.delete(entry);
        }
        for (const { kind, entry } of changes) {
          if (kind === "entry-add") wanted.add(entry);
          else wanted.delete(entry);
        }
        assert.deepEqual(new Set(stored.keys()), wanted);
        for (const [entry, place] of stored) {
          const isCovered = [...stored.keys()].some(
            (other) => other !== entry && contains(other, entry),
          );
          assert.equal(place, isCovered ? "covered" : "matched", entry);
        }
      }
    });
  }
});

function contains(outer: SetEntry, inner: SetEntry): boolean {
  const [one, other] = [setEntryParts(outer), setEntryParts(inner)];
  if (one.address !== other.address || one.second === undefined || other.second === undefined) {
    return false;
  }
  return (
    one.second.prefixLength < other.second.prefixLength &&
    cidrContains(one.second, other.second.address)
  );
}
