/**
 * Prints this build's kernel state for `objects.ts`: `node test/lab/boot.ts -- node test/upgrade/record.ts`. Save it as
 * states/VERSION-COMMIT.json before you change what kube-ipvs writes. With a command that contains `{config}`, and `ipvs`
 * or `iptables`, prints that proxy's state, to be saved in other-proxies/.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KernelState } from "../golden/kernel-state.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { observeKernel } from "../golden/observe.ts";
import { ApiServer } from "../support/api-server/api-server.ts";
import { withLabDaemon } from "../support/lab-daemon.ts";
import { withNetworkNamespace } from "../support/netns/network-namespace.ts";
import type { PeerMode } from "../support/peer.ts";
import { objects } from "./objects.ts";
import { stableState, startOtherProxy } from "./other-proxy.ts";

const [template, mode = "ipvs"] = process.argv.slice(2);

async function leftBy(command: string): Promise<KernelState> {
  const server = await ApiServer.start({ objects });
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-record-"));
  const options = { server: server.url, mode: mode as PeerMode, folder };
  const proxy = await startOtherProxy(command, options);
  const state = await stableState();
  proxy.kill("SIGTERM");
  await proxy.ends();
  await server.stop();
  return state;
}

const state = await withNetworkNamespace("upgrade", nodeSetUp, () =>
  template === undefined ? withLabDaemon(objects, {}, () => observeKernel([])) : leftBy(template),
);
console.log(JSON.stringify(state, undefined, 2));
