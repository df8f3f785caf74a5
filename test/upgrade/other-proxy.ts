/** Another proxy on this folder's node: waits until it has synced, and reads its kernel state. */
import { setTimeout as pause } from "node:timers/promises";
import { ask } from "../faults/ask.ts";
import { compareStates, type KernelState } from "../golden/kernel-state.ts";
import { observeKernel } from "../golden/observe.ts";
import { until } from "../support/lab-node.ts";
import { type PeerOptions, peerArguments } from "../support/peer.ts";
import { Program } from "../support/program.ts";

const startLimitMs = 120_000;
const stableMs = 5_000;

/** Resolves when the proxy's metrics contain the time of a sync. */
export async function startOtherProxy(template: string, options: PeerOptions): Promise<Program> {
  const [program = "", ...args] = peerArguments(template, options);
  const proxy = new Program(args, [], { program });
  const hasSynced = async (): Promise<boolean> => {
    const { text } = await ask("http://127.0.0.1:10249/metrics").catch(() => ({ text: "" }));
    return /^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{.*\})? [^0]/m.test(text);
  };
  await until(hasSynced, startLimitMs, () => Promise.resolve(`no sync of\n${proxy.output}`));
  return proxy;
}

/** Waits until the kernel state no longer changes. */
export async function stableState(): Promise<KernelState> {
  for (let last = await observeKernel([]); ; ) {
    await pause(stableMs);
    const state = await observeKernel([]);
    if (compareStates(last, state).length === 0) return state;
    last = state;
  }
}
