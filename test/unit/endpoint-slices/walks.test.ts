/** Random histories: after any change, the slices must be correct, with few writes. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodRecord, SelectingService } from "../../../src/endpoint-slices/objects.ts";
import { seededRandom } from "../../support/seeds.ts";
import { ip, pod, SliceShelf, selecting, served } from "./slices.ts";

const named = { name: "http", protocol: "TCP", target: "web", appProtocol: "" } as const;
const fixed = { name: "http", protocol: "TCP", target: 8080, appProtocol: "" } as const;

class Walk {
  readonly pods = new Map<number, PodRecord>();
  readonly shelf = new SliceShelf();
  service: SelectingService | undefined = selecting({ families: ["IPv4", "IPv6"] });
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  /** Makes one change. Returns the maximum number of writes that it may cause, given the number of existing slices. */
  step(): number {
    const slices = this.shelf.stored.length + 4;
    switch (this.#below(20)) {
      case 0:
        this.service = this.service === undefined ? selecting() : undefined;
        return slices + this.pods.size;
      case 1:
        this.service = selecting({ ports: [this.#below(2) === 0 ? named : fixed], families: [] });
        return slices + this.pods.size;
      case 2:
        this.service = selecting({ labels: { round: String(this.#below(3)) } });
        return slices + this.pods.size;
      case 3: {
        const count = this.#below(150);
        for (let number = 0; number < count; number += 1) this.#put(this.#below(400));
        return slices * 4;
      }
      case 4: {
        const count = this.#below(100);
        for (let number = 0; number < count; number += 1) this.pods.delete(this.#below(400));
        return slices * 4;
      }
      case 5:
      case 6:
      case 7:
        this.pods.delete(this.#below(400));
        return perPod;
      default:
        this.#put(this.#below(400));
        return perPod;
    }
  }

  #put(number: number): void {
    const family = this.#below(3);
    const addresses = [ip(`10.0.${Math.floor(number / 250)}.${(number % 250) + 1}`)];
    if (family > 0) addresses.push(ip(`fd00::${number.toString(16)}`));
    if (family > 1) addresses.shift();
    this.pods.set(
      number,
      pod(number, {
        addresses,
        isReady: this.#below(4) > 0,
        isTerminating: this.#below(8) === 0,
        labels: { app: this.#below(10) > 0 ? "web" : "other" },
        namedPorts: [{ name: "web", protocol: "TCP", port: 80 + this.#below(2) }],
      }),
    );
  }
}

/** In each family, one Pod leaves a slice and enters another one, and a slice may be created or deleted. */
const perPod = 4;

describe("slices after a random history", () => {
  for (let seed = 1; seed <= 12; seed += 1) {
    it(`equal a plan from scratch, with few writes (seed ${seed})`, () => {
      const walk = new Walk(seed);
      walk.shelf.sync(walk.service, walk.pods.values());
      for (let step = 0; step < 150; step += 1) {
        const most = walk.step();
        const writes = walk.shelf.sync(walk.service, walk.pods.values());
        assert.ok(writes <= most, `step ${step}: ${writes} writes, at most ${most}`);
        assert.equal(walk.shelf.sync(walk.service, walk.pods.values()), 0, `step ${step}: settled`);
        const scratch = new SliceShelf();
        scratch.sync(walk.service, walk.pods.values());
        assert.deepEqual(served(walk.shelf.stored), served(scratch.stored), `step ${step}`);
        for (const { endpoints } of walk.shelf.stored) assert.ok(endpoints.length <= 100);
        const names = walk.shelf.stored.map(({ name }) => name);
        assert.equal(new Set(names).size, names.length);
      }
    });
  }
});
