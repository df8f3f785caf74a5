/**
 * Tests that after random changes to a folder of Pods, Services and slices, the endpoints equal those that a new reader
 * finds.
 */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import fc from "fast-check";
import { type ApiObject, endpointSlice, pod, service } from "../../../support/objects.ts";
import { seeds } from "../../../support/seeds.ts";
import { ManifestFolder, startedSource } from "./folder.ts";

const counts = { short: 20, long: 400 };

const pods: fc.Arbitrary<ApiObject> = fc
  .record({
    name: fc.constantFrom("p-0", "p-1", "p-2"),
    app: fc.constantFrom("web", "api"),
    ips: fc.constantFrom(["10.244.1.10"], ["10.244.1.11"], ["10.244.1.12", "fd00::5"], []),
    isReady: fc.boolean(),
    phase: fc.constantFrom("Running", "Running", "Failed"),
  })
  .map(({ app, phase, ...rest }) => pod({ ...rest, labels: { app }, status: { phase } }));
const services: fc.Arbitrary<ApiObject> = fc
  .record({
    name: fc.constantFrom("web", "api"),
    app: fc.constantFrom("web", "api", undefined),
    clusterIps: fc.constantFrom(["10.96.0.10"], ["10.96.0.10", "fd00:96::a"], ["None"]),
  })
  .map(({ app, ...rest }) =>
    service({ ...rest, spec: app === undefined ? {} : { selector: { app } } }),
  );
const slices: fc.Arbitrary<ApiObject> = fc
  .record({
    name: fc.constantFrom("web-ipv4-0", "api-ipv4-0", "by-hand"),
    service: fc.constantFrom("web", "api"),
    endpoints: fc.constantFrom(["10.244.9.1"], ["10.244.9.2"]),
  })
  .map(endpointSlice);
const objects = fc.oneof(
  { weight: 6, arbitrary: pods },
  { weight: 4, arbitrary: services },
  { weight: 2, arbitrary: slices },
);
/** Replaces a file's contents. Without contents, removes the file. */
const steps = fc.record({
  file: fc.constantFrom("a.json", "b.json", "c.json", "d.json"),
  items: fc.array(objects, { maxLength: 4 }),
});

/** The endpoints that a reader has, with their Service and ports. */
function endpointsOf({ told }: Awaited<ReturnType<typeof startedSource>>): readonly string[] {
  return [...told.slices.values()]
    .flatMap(({ service: owner, family, ports, endpoints }) =>
      endpoints.map((endpoint) => JSON.stringify([owner, family, ports, endpoint])),
    )
    .sort();
}

async function run(test: TestContext, seed: number): Promise<void> {
  const [history = []] = fc.sample(fc.noBias(fc.array(steps, { minLength: 25, maxLength: 25 })), {
    seed,
    numRuns: 1,
  });
  const folder = await ManifestFolder.make(test);
  const reader = await startedSource(test, folder);
  for (const { file, items } of history) {
    if (items.length > 0) await folder.write(file, JSON.stringify({ kind: "List", items }));
    else await folder.remove(file).catch(() => {});
    await reader.source.refresh();
  }
  const found = endpointsOf(reader);
  assert.deepEqual(found, endpointsOf(await startedSource(test, folder)), `seed ${seed}`);
}

describe("random folder histories", () => {
  it(`end with the endpoints that a new reader finds, with ${seeds(counts).length} seeds`, async (test) => {
    for (const seed of seeds(counts)) await run(test, seed);
  });
});
