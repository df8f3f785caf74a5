/** `kube-ipvs plan` in mode userspace. */
import { type PlannedChanges, plannedChanges } from "../../answer/plan.ts";
import type { NodeRecord } from "../../api/objects.ts";
import type { ObjectSource, ResourceKind } from "../../api/source.ts";
import type { Clock } from "../../base/clock.ts";
import { ipFamilies } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import { listListeningSockets } from "../../kernel/listening-sockets.ts";
import { ChangeTracker } from "../../model/change-tracker.ts";
import { planObject } from "../../reconcile/render/plan-json.ts";
import { planText } from "../../reconcile/render/plan-text.ts";
import type { SoughtListener } from "../../userspace/find-listeners.ts";
import { planOptionsOf } from "../node/node-facts.ts";
import { apiServerService, readNodeNetwork, sliceEndpoints } from "../node/node-network.ts";
import { answerDeadline } from "../process/answer-deadline.ts";
import { openClaimMemory } from "../process/claim-record.ts";
import { openSource } from "../process/open-source.ts";
import { holderRecordIn } from "../process/ownership-record.ts";
import { readState } from "../process/state-file.ts";
import type { RunContext } from "../run.ts";
import { openNetworkReader } from "./network-reader.ts";
import {
  addressesOf,
  findIptables,
  listenerText,
  planUserspace,
  type UserspacePlan,
} from "./plan-userspace.ts";

/** What a start would do. Rejects if that is unknown. */
export async function planUserspaceStart(
  config: Config,
  { clock, log }: Pick<RunContext, "clock" | "log">,
): Promise<PlannedChanges> {
  const deadline = answerDeadline(config, clock);
  const { observer } = deadline;
  const { source, close } = await openSource(config, { clock, log, observer });
  try {
    const reading = readObjects(source, config, clock);
    const { tracker, node } = await Promise.race([reading, deadline.expired]);
    const sockets = listListeningSockets();
    const usable = await findIptables({ ...config, isObserveOnly: true }, log);
    const { held } = holderRecordIn(readState(config.statePath));
    const servers = sliceEndpoints(tracker.slicesOf(apiServerService));
    const apiServers = [...(source.servers?.() ?? []), ...servers];
    const families = usable?.families ?? ipFamilies;
    const reader = openNetworkReader(usable, log);
    try {
      const network = await readNodeNetwork(reader, () => ({ apiServers }));
      const options = planOptionsOf({ config, families, node, network });
      const { claimMemory } = openClaimMemory(config, { clock, log });
      const seen = { usable, held, sockets, claimMemory };
      const plan = await planUserspace({ tracker, options }, seen, config);
      const hasChanges = plan.listeners.length + plan.rules.changes.length > 0;
      return plannedChanges(objectOf(plan), textOf(plan), hasChanges);
    } finally {
      reader.close();
    }
  } finally {
    deadline.stop();
    await close();
  }
}

/** Resolves when Services and EndpointSlices are listed. */
async function readObjects(
  source: ObjectSource,
  { limits }: Pick<Config, "limits">,
  clock: Clock,
): Promise<{ readonly tracker: ChangeTracker; readonly node: NodeRecord | undefined }> {
  const tracker = new ChangeTracker(clock.nowMs(), limits);
  const unlisted = new Set<ResourceKind>(["services", "endpointslices"]);
  const listed = Promise.withResolvers<void>();
  let node: NodeRecord | undefined;
  await source.start({
    onService: (previous, current) => tracker.noteService(previous, current),
    onEndpointSlice: (previous, current) => tracker.noteSlice(previous, current),
    onNode: (_previous, current) => {
      node = current;
    },
    onSynced: (kind) => {
      unlisted.delete(kind);
      if (unlisted.size === 0) listed.resolve();
    },
    onRefusal: () => {},
  });
  await listed.promise;
  await source.stop();
  // Shares are given when changes are taken.
  tracker.take();
  return { tracker, node };
}

/** Pure. */
export function objectOf({ listeners, rules, sctpPorts }: UserspacePlan): object {
  return { ...planObject(rules), listeners: listeners.map(listenerObject), sctpPorts };
}

function listenerObject({ wanted, address }: SoughtListener): object {
  const { service, portName, protocol, nodePort } = wanted;
  return {
    ...{ protocol, host: address.host },
    // Any free one where rules lead to it.
    ...(address.port === 0 ? {} : { port: address.port }),
    ...{ service, portName },
    ...(address.isRedirected === true ? { addresses: addressesOf(wanted), nodePort } : {}),
  };
}

/** Pure. */
export function textOf({ listeners, rules, sctpPorts }: UserspacePlan): string {
  const opened =
    listeners.length === 0
      ? []
      : [`Listeners: ${listeners.length}`, ...listeners.map(listenerLine), ""];
  const isEmpty = listeners.length + rules.changes.length === 0;
  const changed = rules.changes.length > 0 || isEmpty ? [planText(rules).trimEnd(), ""] : [];
  const notServed = sctpPorts.map((name) => `Not served: ${name}: there are no sockets for SCTP`);
  return [...opened, ...changed, ...notServed].join("\n").trimEnd();
}

function listenerLine(sought: SoughtListener): string {
  return `  ${listenerText(sought)}  # missing, service ${sought.wanted.portName}`;
}
