import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { loadConfig } from "../../../../src/config/load-config.ts";
import { openSource } from "../../../../src/daemon/process/open-source.ts";
import { ApiContact } from "../../../../src/daemon/report/api-contact.ts";
import { startingEvent } from "../../../../src/daemon/report/events.ts";
import { ApiServer } from "../../../support/api-server/api-server.ts";

/** Opens a source, records an Event and closes the source. Returns the reasons that the API server stored. */
async function recorded(
  test: TestContext,
  flags: readonly string[] = [],
): Promise<readonly unknown[]> {
  const server = await ApiServer.start();
  test.after(() => server.stop());
  const values = new Map<string, readonly string[]>([
    ["master", [server.url]],
    ...flags.map((flag) => [flag, ["true"]] as const),
  ]);
  const { config } = loadConfig(values, { hostname: () => "node-1", readFile: () => "" });
  const parts = { clock: systemClock, log: silentLogger, observer: new ApiContact(systemClock) };
  const { events, close } = await openSource(config, parts);
  events.record(startingEvent("node-1"));
  // By then, the Event has arrived or will never be sent, because sending does not wait for anything.
  const sent = (): boolean => server.events.events.length > 0 || flags.length > 0;
  while (!sent()) await new Promise((resolve) => setImmediate(resolve));
  await close();
  return server.events.events.map(({ reason }) => reason);
}

describe("Events of a daemon in a cluster", () => {
  it("are written to the API server", async (test) => {
    assert.deepEqual(await recorded(test), ["Starting"]);
  });

  it("are not written with observeOnly", async (test) => {
    assert.deepEqual(await recorded(test, ["kube-ipvs-observe-only"]), []);
  });
});
