import { hostname } from "node:os";
import type { ClusterSourceOptions } from "../../api/cluster/cluster-source.ts";
import type { NotReadyTaint } from "../../api/cluster/not-ready-taint.ts";
import type { RequestAuthorizer } from "../../api/cluster/request-authorizer.ts";
import type { RequestRate } from "../../api/cluster/request-pace.ts";
import type { RequestObserver } from "../../api/connection.ts";
import { type EventRecorder, silentEvents } from "../../api/event.ts";
import type { ObjectSource } from "../../api/source.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { version } from "../../base/version.ts";
import type { Config } from "../../config/config.ts";
import type { Stop } from "./life-cycle.ts";

/** The source of objects and the destination of Events. */
export interface OpenSource {
  readonly source: ObjectSource;
  readonly events: EventRecorder;
  /** Undefined if `kubeIpvs.removeNotReadyTaint` is off. */
  readonly notReadyTaint?: NotReadyTaint;
  /** Undefined if there is no API server. */
  readonly authorizer?: RequestAuthorizer;
  /** Waits briefly for the delivery of pending Events, then closes all connections. */
  readonly close: Stop;
}

export interface SourceDependencies {
  readonly clock: Clock;
  readonly log: Logger;
  /** Counts requests to the API server. */
  readonly observer: RequestObserver;
}

/**
 * Opens the configured source without sending requests. Loads only the code that this source needs, because the cluster
 * client uses most of the program's memory. Rejects if the source cannot provide objects, for example because the
 * manifest folder or a usable kubeconfig is missing.
 */
export async function openSource(
  config: Config,
  dependencies: SourceDependencies,
): Promise<OpenSource> {
  const { objectsFrom, nodeName, serviceProxyName, relistGuardPercent, clientConnection } = config;
  const selection = { nodeName, serviceProxyName };
  if (objectsFrom.kind === "cluster") {
    const given = { ...dependencies, rate: clientConnection };
    const { notReadyTaint, ...opened } = await openCluster(
      objectsFrom,
      { ...selection, relistGuardPercent },
      given,
    );
    // Observe-only mode writes nothing, and its Events must not be confused with those of the running proxy.
    if (config.observeOnly) return { ...opened, events: silentEvents };
    return config.removeNotReadyTaint ? { ...opened, notReadyTaint } : opened;
  }
  const { ManifestSource } = await import("../../api/manifest/manifest-source.ts");
  const source = new ManifestSource(dependencies, { folder: objectsFrom.folder, ...selection });
  await source.checkFolder();
  return { source, events: silentEvents, close: async () => {} };
}

async function openCluster(
  { kubeconfigPath = "", masterUrl = "" }: Extract<Config["objectsFrom"], { kind: "cluster" }>,
  selection: ClusterSourceOptions,
  { clock, log, observer, rate }: SourceDependencies & { readonly rate: RequestRate },
): Promise<Required<OpenSource>> {
  const [{ openConnection }, { ClusterSource }, { EventWriter }, taints, authorizers] =
    await Promise.all([
      import("../../api/cluster/open-connection.ts"),
      import("../../api/cluster/cluster-source.ts"),
      import("../../api/cluster/events/event-writer.ts"),
      import("../../api/cluster/not-ready-taint.ts"),
      import("../../api/cluster/request-authorizer.ts"),
    ]);
  const userAgent = `kube-ipvs/${version} (linux/${process.arch})`;
  const connection = await openConnection(
    { clock, environment: process.env, observer, rate },
    { kubeconfig: kubeconfigPath, master: masterUrl, userAgent },
  );
  const dependencies = { connection, clock, log, random: Math.random };
  const events = new EventWriter(dependencies, {
    hostname: hostname(),
    nodeName: selection.nodeName,
  });
  const notReadyTaint = new taints.NotReadyTaint(dependencies, selection.nodeName);
  const close = async (): Promise<void> => {
    notReadyTaint.stop();
    await events.stop();
    connection.close();
  };
  const source = new ClusterSource(dependencies, selection);
  const authorizer = new authorizers.RequestAuthorizer(dependencies);
  return { source, events, notReadyTaint, authorizer, close };
}
