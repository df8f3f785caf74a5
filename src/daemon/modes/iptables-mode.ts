import type { ServedAddresses } from "../../api/source.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import {
  findBackends,
  leftoverRemoval,
  noEarlierRuns,
  removePortals,
} from "../leftovers/remove-leftovers.ts";
import { prepareTables } from "../node/prepare-tables.ts";
import { guardedBy } from "../node/served-before.ts";
import { readServedByRules, type ServedByRules } from "../node/served-by-rules.ts";
import { LoopReporter } from "../report/loop-reporter.ts";
import { TablesLoop } from "../sync/tables-loop.ts";
import type { ModeContext, RunningMode } from "./mode.ts";

/** Prepares the kernel for iptables mode. Rejects if startup cannot continue. */
export async function beginIptables(parts: ModeContext): Promise<RunningMode> {
  const { config, kernel, log, clock, live } = parts;
  const prepared = await prepareTables(kernel, config, log);
  const { families } = prepared;
  const backends = await findBackends(kernel, config, parts);
  await removePortals(kernel, config, { ...parts, backends });
  const reporter = new LoopReporter({ ...parts, nodeName: config.nodeName });
  const loop = new TablesLoop(
    { ...parts, reporter, onNodeReady: (node) => parts.onNodeReady(node, families) },
    live,
    prepared,
  );
  const runs = parts.modeRecord ?? noEarlierRuns;
  return {
    ...{ families, loop },
    iptables: kernel.iptables,
    servedBefore: servedByTables(families, parts),
    view: {
      mode: "iptables",
      families,
      clock,
      history: reporter.history,
      iptables: kernel.iptables,
      scheduler: "random",
      objects: loop.objects,
      get place() {
        return loop.place;
      },
      choose: ({ cluster, local }, isPolicyLocal) => (isPolicyLocal ? local : cluster),
      frontends: (port, family) => loop.frontends(port, family),
      rulesOf: (family) => loop.rulesOf(family),
      lostTo: (port, key) => loop.claims.lostTo(port, key),
      absentReason: () => (reporter.history.failing === undefined ? undefined : "sync-failed"),
      get config() {
        return live.current;
      },
    },
    configure: async () => {},
    removeLeftovers: leftoverRemoval(kernel, config, { clock, log, runs }),
  };
}

/** Reads the rules only once, even though Services and endpoints are requested separately. */
function servedByTables(
  families: readonly IpFamily[],
  { kernel: { iptables }, config, fail = () => {} }: ModeContext,
): ServedAddresses | undefined {
  let reading: Promise<ServedByRules> | undefined;
  const read = (): Promise<ServedByRules> => {
    reading ??= readServedByRules("iptables", iptables, families);
    return reading;
  };
  const services = async (): Promise<ReadonlySet<IpAddress>> => (await read()).services;
  const endpointslices = async (): Promise<ReadonlySet<IpAddress>> => (await read()).endpoints;
  return guardedBy({ services, endpointslices }, fail, config);
}
