import { exitCodes } from "../../answer/answer.ts";
import { servicesTarget } from "../../answer/questions.ts";
import { trafficView } from "../../answer/traffic-view.ts";
import { parseDuration } from "../../base/duration.ts";
import { hasApiServer } from "../../config/config.ts";
import type { NamesAnswer } from "../../top/names.ts";
import { type TopOptions, topSortKeys } from "../../top/options.ts";
import {
  type Command,
  type CommandContext,
  outputOptions,
  switchOption,
  valueOption,
} from "../command.ts";

/**
 * The kernel updates its counters every 2 s. At shorter intervals, rates would alternate between 0 and values that are
 * too high.
 */
const shortestIntervalMs = 2_000;
const longestIntervalMs = 3_600_000;

export const topCommand: Command = {
  name: "top",
  usage: "[FILTER] [flags]",
  summary: "show live connections and bytes per second by Service",
  description:
    "Shows connections per second, bytes per second and open connections for each Service " +
    "port. Press enter to see each endpoint. The command reads the kernel's counters. Service " +
    "names come from the daemon or, if it is not running, from the cluster or manifests.\n" +
    "Without a terminal, or with -b, it takes two readings and prints one table. FILTER " +
    "selects the rows that contain this text.\n" +
    "Keys: enter endpoints, esc back, / filter, c i o a n s sort, r reverse, space pause, q " +
    "quit.\n" +
    "Exit codes: 0 success; 1 error.",
  options: [
    switchOption("batch", "print one table and exit (implied by formats other than text)", "b"),
    ...outputOptions(),
    valueOption(
      "interval",
      "duration",
      "time between two readings, 2s to 1h; the kernel updates its counters every 2s",
      "2s",
    ),
    {
      ...valueOption(
        "sort",
        "key",
        `sort in descending order by ${topSortKeys.join(", ")}`,
        "connections",
      ),
      choices: topSortKeys,
    },
  ],
  mostArguments: 1,
  needsNoMode: true,
  drawsItself: true,
  examples: [
    {
      command: "kubectl -n kube-system exec -it POD -- kube-ipvs top",
      purpose: "the node that runs this pod",
    },
    {
      command: "kube-ipvs top shop/ --sort out",
      purpose: "Services in one namespace, sorted by bytes out",
    },
    {
      command: "kube-ipvs top -o json --interval 10s",
      purpose: "rates over ten seconds, for scripts",
    },
  ],
  run: async (context) => {
    const topOptions = optionsOf(context);
    const { readTraffic, runLive } = await context.programs.top();
    const sources = { clock: context.clock, readNames: () => readNames(context) };
    const isBatch = context.options.get("batch") === "true" || context.format !== "text";
    const exitCode = isBatch ? undefined : await runLive(sources, topOptions);
    if (exitCode !== undefined) return exitCode;
    const traffic = await readTraffic(sources, topOptions);
    for (const note of traffic.notes) context.writeErr(`${note}\n`);
    context.print(traffic, trafficView);
    return exitCodes.fine;
  },
};

/** Parses the command's options. Throws if an option is invalid. */
function optionsOf({ options, arguments: [filter = ""], form }: CommandContext): TopOptions {
  const intervalText = options.get("interval") ?? "";
  const intervalMs = parseDuration(intervalText);
  if (intervalMs === undefined) {
    throw new Error(
      `--interval: ${JSON.stringify(intervalText)}: must be a duration string such as "5s"`,
    );
  }
  if (intervalMs < shortestIntervalMs || intervalMs > longestIntervalMs) {
    throw new Error(
      `--interval: ${intervalText}: must be between 2s and 1h (the kernel updates its counters every 2 s)`,
    );
  }
  const sort = topSortKeys.find((key) => key === options.get("sort")) ?? "connections";
  return { intervalMs, intervalText, sort, filter, hasColor: form.hasColor === true };
}

const question = {
  kind: "ServiceList",
  target: servicesTarget({ hasEndpoints: false, hasConnections: false }),
} as const;

/** Reads names from the daemon. If none is running and the source of objects is known, simulates the first sync. */
async function readNames({ source, config, environment }: CommandContext): Promise<NamesAnswer> {
  const asked = await source.askDaemon(question);
  if (asked.kind === "answer") return { kind: "named", rows: asked.answer.items };
  const isAbsent = asked.kind === "absent";
  const hasObjects = config.objectsFrom.kind === "manifests" || hasApiServer(config, environment);
  if (isAbsent && hasObjects) {
    return { kind: "named", rows: (await source.askFirstSync(question)).items };
  }
  const advice = isAbsent
    ? "; if no daemon is running, --config, --kubeconfig or --manifests must name the source of Services"
    : "";
  const path = config.operatorSocket;
  return { kind: "unnamed", reason: `kube-ipvs on ${path}: ${asked.reason}${advice}` };
}
