import type { TestContext } from "node:test";
import { ClusterSource } from "../../../../src/api/cluster/cluster-source.ts";
import { openConnection } from "../../../../src/api/cluster/open-connection.ts";
import { type Clock, systemClock } from "../../../../src/base/clock.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { ApiServer, type ApiServerOptions } from "../../../support/api-server/api-server.ts";
import { RecordingListener } from "../../../support/recording-listener.ts";

/** Timers with at least this delay are idle timeouts, not pauses. */
const idleMs = 60_000;
/** Shortest idle timeout in a test. A busy machine needs this long to answer. */
const shortestIdleMs = 1_000;

/** A clock that runs faster than real time, so that back-off (0.8 s) and idle timeouts (60 s) expire during a test. */
export function clockAt(speed: number): Clock {
  return {
    nowMs: () => systemClock.nowMs(),
    monotonicMs: () => systemClock.monotonicMs() * speed,
    after: (delayMs, callback) => {
      const shortestMs = delayMs >= idleMs ? shortestIdleMs : 0;
      return systemClock.after(Math.max(delayMs / speed, shortestMs), callback);
    },
  };
}

const usualSpeed = 400;

/** A test API server, and a source that reads it over HTTP and notifies a listener. */
export interface Cluster {
  readonly server: ApiServer;
  readonly source: ClusterSource;
  readonly told: RecordingListener;
}

/** Starts a cluster and waits until the source has read all its objects. */
export async function startCluster(
  test: TestContext,
  options: ApiServerOptions & {
    readonly prepare?: (server: ApiServer) => void;
    readonly speed?: number;
    readonly serviceProxyName?: string;
  } = {},
): Promise<Cluster> {
  const server = await ApiServer.start(options);
  test.after(() => server.stop());
  options.prepare?.(server);
  const { source, told } = await startSource(test, server.url, options);
  await told.until(() => isSynced(told));
  return { server, source, told };
}

/** Starts a source that reads the API server at `url`. */
export async function startSource(
  test: TestContext,
  url: string,
  options: { readonly speed?: number; readonly serviceProxyName?: string } = {},
): Promise<{ readonly source: ClusterSource; readonly told: RecordingListener }> {
  const { speed = usualSpeed, serviceProxyName } = options;
  const clock = clockAt(speed);
  const connection = await openConnection(
    { clock, environment: {} },
    { kubeconfig: "", master: url, userAgent: "kube-ipvs/test" },
  );
  const told = new RecordingListener();
  const dependencies = { connection, clock, log: silentLogger, random: Math.random };
  const source = new ClusterSource(dependencies, { nodeName: "node-1", serviceProxyName });
  test.after(() => source.stop());
  await source.start(told);
  return { source, told };
}

export function isSynced(told: RecordingListener): boolean {
  return told.events.filter((event) => event.startsWith("synced ")).length === 3;
}
