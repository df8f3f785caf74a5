/**
 * Implements `kube-ipvs endpoint-controller`, which writes EndpointSlices for Pods to the API server. Does not use
 * the kernel.
 */
import { version } from "../base/version.ts";
import type { Config } from "../config/config.ts";
import { ConfigError, type ConfigProblem } from "../config/config-error.ts";
import { runUntilSignal, type Stop } from "./process/life-cycle.ts";
import type { RunContext } from "./run.ts";

type ControllerContext = Pick<RunContext, "clock" | "log">;

/** Runs until a signal arrives. Rejects if the configuration names no usable API server. */
export async function runEndpointController(
  config: Config,
  parts: ControllerContext,
): Promise<void> {
  const stopEvent = "Shutting down, leaving EndpointSlices in place";
  await runUntilSignal({ ...parts, stopEvent }, () => start(config, parts));
}

async function start(
  { objectsFrom, relistGuardPercent }: Config,
  { clock, log }: ControllerContext,
): Promise<Stop> {
  if (objectsFrom.kind !== "cluster") throw new ConfigError([withoutServer]);
  const [{ openConnection }, { EndpointController }] = await Promise.all([
    import("../api/cluster/open-connection.ts"),
    import("../endpoint-controller/controller.ts"),
  ]);
  const { kubeconfigPath = "", masterUrl = "" } = objectsFrom;
  const userAgent = `kube-ipvs-endpoint-controller/${version} (linux/${process.arch})`;
  const connection = await openConnection(
    { clock, environment: process.env },
    { kubeconfig: kubeconfigPath, master: masterUrl, userAgent },
  );
  log.info("Starting endpoint controller", { version, server: connection.server });
  const guard = { percent: relistGuardPercent };
  const controller = new EndpointController({
    ...{ connection, clock, log, guard },
    random: Math.random,
  });
  controller.start();
  return async () => {
    await controller.stop();
    connection.close();
  };
}

const withoutServer: ConfigProblem = {
  path: "--manifests",
  reason:
    "endpoint-controller needs an API server (--kubeconfig, --master); with --manifests, the daemon itself " +
    "creates EndpointSlices from Pods",
};
