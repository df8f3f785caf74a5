import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { endpointRecord, ip, serviceRecord } from "../../support/records.ts";

/** A clock that advances by 10 ms on each reading, so each reading ends the turn. */
class TickingClock extends FakeClock {
  #ms = 0;

  override monotonicMs(): number {
    this.#ms += 10;
    return this.#ms;
  }
}

const serviceCount = 300;

function benchOfMany(): Bench {
  const bench = new Bench(new FakeKernel(), {}, { clock: new TickingClock() });
  for (let index = 0; index < serviceCount; index += 1) {
    const clusterIp = ip(`10.96.${Math.floor(index / 250)}.${1 + (index % 250)}`);
    const service = serviceRecord({ name: `default/svc-${index}`, clusterIps: [clusterIp] });
    bench.put(service, [endpointRecord("10.244.2.11"), endpointRecord("10.244.2.12")]);
  }
  return bench;
}

/** Number of event-loop turns while `work` runs. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

describe("a sync of many Services", () => {
  it("yields to the event loop while it compares, the first time and later", async () => {
    const bench = benchOfMany();
    // For each Service, its virtual server, two entries and its address are compared, with at most 16 comparisons of
    // one type between clock readings.
    const least = [2, 1, 1].reduce((sum, each) => sum + Math.floor((serviceCount * each) / 16), 0);
    assert.ok((await turnsDuring(() => bench.sync(true))) >= least);
    assert.ok((await turnsDuring(() => bench.sync(true))) >= least);
    assert.deepEqual(await bench.writes(true), []);
  });

  it("sends changes in batches, with the same result as one by one", async () => {
    const bench = benchOfMany();
    const sizes: number[] = [];
    const { ipvs } = bench.kernel;
    const apply = ipvs.apply.bind(ipvs);
    ipvs.apply = (changes) => {
      sizes.push(changes.length);
      return apply(changes);
    };
    for (let index = 0; index < 40; index += 1) {
      const endpoints = Array.from({ length: 100 }, (_, position) =>
        endpointRecord(`10.244.3.${1 + position}`),
      );
      bench.put(
        serviceRecord({ name: `default/big-${index}`, clusterIps: [ip(`10.97.0.${1 + index}`)] }),
        endpoints,
      );
    }
    await bench.sync();
    assert.equal(
      sizes.reduce((sum, size) => sum + size, 0),
      serviceCount * 3 + 40 * 101,
    );
    assert.ok(Math.max(...sizes) < 2_101, `${sizes}`);
    assert.deepEqual(await bench.writes(true), []);
  });
});
