import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KnownPlaces } from "../../../../src/kernel/nftables/known-places.ts";
import { placesBefore } from "../../../../src/kernel/nftables/overlaps.ts";
import type { SetEntry } from "../../../../src/state/set-entry.ts";

const entry = "10.96.0.1,tcp:80,10.0.0.0/8" as SetEntry;
const server = "10.96.0.1,tcp:80,";

/** Reads the known places at generation 7, and returns a function that counts set reads. */
async function read(): Promise<{ places: KnownPlaces; readsOf: () => Promise<number> }> {
  const places = new KnownPlaces();
  let reads = 0;
  const readsOf = async (): Promise<number> => {
    await places.placesOf("SET", async () => {
      reads += 1;
      return placesBefore([entry], []);
    });
    return reads;
  };
  places.checkGeneration(7);
  assert.equal(await readsOf(), 1);
  return { places, readsOf };
}

describe("known places of networks", () => {
  it("stay known through kube-ipvs's own transactions", async () => {
    const { places, readsOf } = await read();
    places.advance(8, 1);
    places.checkGeneration(8);
    assert.equal(await readsOf(), 1);
    places.advance(8, 0);
    assert.equal(await readsOf(), 1);
  });

  it("are read again after other programs' transactions", async () => {
    for (const generation of [8, undefined]) {
      const { places, readsOf } = await read();
      places.checkGeneration(generation);
      assert.equal(await readsOf(), 2);
    }
    const { places, readsOf } = await read();
    places.advance(9, 1);
    assert.equal(await readsOf(), 2);
  });

  it("follow noted changes, and are forgotten after a failure", async () => {
    const { places, readsOf } = await read();
    places.note("SET", new Map([[server, new Map([[entry, "covered"]])]]));
    const known = await places.placesOf("SET", () => assert.fail());
    assert.equal(known.get(server)?.get(entry), "covered");
    places.note("SET", new Map([[server, new Map()]]));
    assert.equal((await places.placesOf("SET", () => assert.fail())).size, 0);
    places.forget();
    assert.equal(places.isEmpty, true);
    assert.equal(await readsOf(), 2);
  });
});
