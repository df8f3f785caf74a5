/** Runs `kube-ipvs top`, which changes nothing. */
import type { TrafficList } from "../answer/traffic.ts";
import { openReaders } from "../kernel/open-readers.ts";
import type { TrafficKernel } from "../kernel/sample-traffic.ts";
import type { TopOptions, TopSources } from "./options.ts";
import { readTrafficFrom } from "./read-traffic.ts";
import { runLiveOn } from "./run-live.ts";
import { openTerminal } from "./terminal.ts";

/** Resolves with the exit code, or undefined if this terminal cannot show the live view. */
export async function runLive(
  sources: TopSources,
  options: TopOptions,
): Promise<number | undefined> {
  const { TERM = "" } = process.env;
  const isAble = TERM !== "" && TERM !== "dumb";
  if (!isAble || process.stdin.isTTY !== true || process.stdout.isTTY !== true) return undefined;
  return await withKernel(sources, async (kernel) => {
    const terminal = openTerminal();
    try {
      return await runLiveOn({ ...sources, kernel, terminal }, options);
    } finally {
      terminal.close();
    }
  });
}

export async function readTraffic(sources: TopSources, options: TopOptions): Promise<TrafficList> {
  return await withKernel(sources, (kernel) => readTrafficFrom(kernel, sources, options));
}

async function withKernel<T>(
  { clock }: TopSources,
  run: (kernel: TrafficKernel) => Promise<T>,
): Promise<T> {
  const kernel = openReaders(clock);
  try {
    return await run(kernel);
  } finally {
    kernel.close();
  }
}
