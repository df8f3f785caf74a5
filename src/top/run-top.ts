/** Runs `kube-ipvs top`, which changes nothing. */
import { listOf } from "../answer/answer.ts";
import type { TrafficList } from "../answer/traffic.ts";
import { sleep } from "../base/clock.ts";
import { openReaders } from "../kernel/open-readers.ts";
import { sampleTraffic, type TrafficKernel } from "../kernel/sample-traffic.ts";
import { NameLookup } from "./names.ts";
import type { TopOptions, TopSources } from "./options.ts";
import { estimatorNotes, SampleHistory } from "./reading.ts";
import { filtered, rowsOf, sorted } from "./rows.ts";
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

/** Maximum wait for names after the second reading, because the cluster may not answer. */
const namesDeadlineMs = 10_000;

/** Computes one table from two readings. */
export async function readTrafficFrom(
  kernel: TrafficKernel,
  { clock, readNames }: TopSources,
  options: Pick<TopOptions, "intervalMs" | "sort" | "filter">,
): Promise<TrafficList> {
  const history = new SampleHistory();
  const first = await sampleTraffic(kernel, clock);
  history.add(first);
  const names = new NameLookup(readNames, clock);
  const deadline = new AbortController();
  const named = names.ask(first.servers.map(({ key }) => key)).then(() => deadline.abort());
  await sleep(clock, Math.max(0, first.atMs + options.intervalMs - clock.monotonicMs()));
  const last = await sampleTraffic(kernel, clock);
  history.add(last);
  await Promise.race([named, sleep(clock, namesDeadlineMs, deadline.signal)]);
  const rows = rowsOf(last.servers, names.owners, (one) => history.figuresOf(one));
  const items = sorted(filtered(rows, options.filter), options.sort, false);
  const isEmpty = last.servers.length === 0;
  const unmatched = `No row contains ${JSON.stringify(options.filter)}`;
  return {
    ...listOf("TrafficList", items),
    intervalSeconds: Math.round(last.atMs - first.atMs) / 1_000,
    estimator: last.isCounting ? "on" : "off",
    notes: [
      ...estimatorNotes(last),
      ...(deadline.signal.aborted
        ? names.notes
        : ["Service names are not available: no answer within 10 s"]),
      ...(isEmpty ? ["No virtual servers on this node"] : items.length === 0 ? [unmatched] : []),
    ],
  };
}
