import { ipFamilies } from "../../base/ip.ts";
import { setFor } from "../../plan/sets.ts";
import { isWithinMask } from "../../state/virtual-server.ts";
import {
  findBackends,
  leftoverRemoval,
  noEarlierRuns,
  removePortals,
  reportLeftoverChains,
} from "../leftovers/remove-leftovers.ts";
import { LocalhostNodePorts } from "../localhost/localhost-node-ports.ts";
import { configureKernel, prepareKernel } from "../node/prepare-kernel.ts";
import { servedBefore } from "../node/served-before.ts";
import { SyncReporter } from "../report/sync-reporter.ts";
import { SyncLoop } from "../sync/sync-loop.ts";
import type { ModeContext, RunningMode } from "./mode.ts";

/** The kernel's default timeout of UDP flows, used if `ipvs.udpTimeout` is not set. */
const ipvsUdpSeconds = 300;

/** Prepares the kernel for IPVS mode. Rejects if startup cannot continue. */
export async function beginIpvs(parts: ModeContext): Promise<RunningMode> {
  const { config, kernel, log, live } = parts;
  const families = await prepareKernel(kernel, config, log);
  const backends = await findBackends(kernel, config, parts);
  await removePortals(kernel, config, { ...parts, backends });
  const reporter = new SyncReporter({ ...parts, nodeName: config.nodeName });
  const udpIdleMs = (): number => (live.current.ipvsTimeouts.udpSeconds || ipvsUdpSeconds) * 1_000;
  const localhost = config.localhostNodePorts
    ? { localhostNodePorts: new LocalhostNodePorts({ ...parts, udpIdleMs }) }
    : {};
  const loop = new SyncLoop(
    {
      ...{ ...parts, ...localhost, reporter },
      onNodeReady: (node) => parts.onNodeReady(node, families),
    },
    live,
    families,
  );
  const leftovers = { clock: parts.clock, log, runs: parts.modeRecord ?? noEarlierRuns };
  reportLeftoverChains(backends, config, leftovers);
  const removeOthers = leftoverRemoval(kernel, config, leftovers);
  return {
    ...{ families, loop },
    iptables: kernel.iptables,
    servedBefore: servedBefore(
      {
        readBound: () => loop.readBound(),
        readServers: () => loop.readServers(),
        fail: parts.fail ?? (() => {}),
      },
      config,
    ),
    view: {
      mode: "ipvs",
      ...loop.view,
      families,
      clock: parts.clock,
      ipvs: kernel.ipvs,
      iptables: kernel.iptables,
      get config() {
        return live.current;
      },
    },
    configure: (next) => configureKernel(kernel, next, { families, log }),
    removeLeftovers: async (stop) => {
      const isGone = await removeOthers(stop);
      if (stop.aborted) return false;
      await convertVirtualAddresses(kernel, config, log);
      if (!isGone || hasEarlierRanges(loop, parts)) return false;
      await removeTunnelNodes(parts);
      return true;
    },
  };
}

/** Whether virtual servers with earlier marks remain because the kernel rejected their removal. */
function hasEarlierRanges(
  { view: { reconciler, history } }: Pick<SyncLoop, "view">,
  { config: { portRangeMarks: marks = 0 }, modeRecord }: ModeContext,
): boolean {
  if ((modeRecord?.earlierMarks ?? []).every((mask) => mask === marks)) return false;
  const foreign = new Set(history.foreignServers);
  return [...reconciler.cachedServers].some(
    ([key, { virtualServer: server }]) =>
      server.protocol === "FWM" && !isWithinMask(server.port, marks) && !foreign.has(key),
  );
}

/** Removes the sets of earlier tunnels. Call this only after the rules that refer to these sets have been removed. */
async function removeTunnelNodes({ kernel, config, modeRecord }: ModeContext): Promise<void> {
  const hadMarks = (modeRecord?.earlierMarks ?? []).length > 0;
  if (config.tunnelForwarding || config.observeOnly || !hadMarks) return;
  for (const family of ipFamilies) await kernel.ipSets.destroy(setFor("tunnelNodes", family).name);
}

/** Removes virtual IPs that an earlier run bound with a different value of `kubeIpvs.virtualAddresses`. */
async function convertVirtualAddresses(
  { link }: ModeContext["kernel"],
  { virtualAddresses, observeOnly }: ModeContext["config"],
  log: ModeContext["log"],
): Promise<void> {
  if (observeOnly) return;
  const count = await link.removeOtherForm();
  if (count > 0) log.info("Converted virtual IPs", { to: virtualAddresses, count });
}
