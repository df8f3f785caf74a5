/** A running controller on the test API server. Its back-off takes milliseconds instead of seconds. */
import type { TestContext } from "node:test";
import { openConnection } from "../../../src/api/cluster/open-connection.ts";
import { systemClock } from "../../../src/base/clock.ts";
import type { Logger } from "../../../src/base/log.ts";
import { EndpointController } from "../../../src/endpoint-controller/controller.ts";
import type { ApiServer } from "../../support/api-server/api-server.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";

/** This clock does not affect request timeouts. */
const quickClock: typeof systemClock = {
  ...systemClock,
  after: (delayMs, callback) =>
    systemClock.after(delayMs > 30_000 ? delayMs : delayMs / 20, callback),
};

/** Starts a controller, which stops when the test ends. */
export async function startController(
  test: TestContext,
  server: ApiServer,
  log: Logger = new RecordingLogger(),
): Promise<EndpointController> {
  const connection = await openConnection(
    { clock: systemClock, environment: {} },
    { kubeconfig: "", master: server.url, userAgent: "test" },
  );
  test.after(() => connection.close());
  const guard = { percent: 50 };
  const parts = { connection, log, guard, random: () => 0 };
  const controller = new EndpointController({ ...parts, clock: quickClock });
  controller.start();
  test.after(() => controller.stop());
  return controller;
}
