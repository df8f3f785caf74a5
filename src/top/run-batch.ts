/** One table, of two readings. */
import { sleep } from "../base/clock.ts";
import { NameLookup } from "./name-lookup.ts";
import { notesOf } from "./notes.ts";
import type { TopOptions, TopParts } from "./options.ts";
import { isCounting, readServers, type ServersReading, type TopKernel } from "./read-kernel.ts";
import { ReadingHistory } from "./reading.ts";
import { filtered, rowsOf, sorted, type TopRow } from "./rows.ts";
import { serviceTable } from "./table.ts";

export interface BatchParts extends TopParts {
  readonly kernel: TopKernel;
}

type BatchOptions = Pick<TopOptions, "intervalMs" | "sort" | "filter" | "format">;

/** Names that take longer are not waited for: a cluster may not answer. */
const namesDeadlineMs = 10_000;

export async function runBatch(parts: BatchParts, options: BatchOptions): Promise<void> {
  const { clock, kernel } = parts;
  const history = new ReadingHistory<ServersReading>();
  const first = await readServers(kernel, clock);
  history.add(first);
  const names = new NameLookup(parts.readNames, clock);
  const deadline = new AbortController();
  const named = names.ask(first.servers.keys()).then(() => deadline.abort());
  await sleep(clock, Math.max(0, first.atMs + options.intervalMs - clock.monotonicMs()));
  const last = await readServers(kernel, clock);
  history.add(last);
  await Promise.race([named, sleep(clock, namesDeadlineMs, deadline.signal)]);
  const isOn = isCounting(kernel);
  const rows = rowsOf(last.ids, names.owners, (key) => history.figuresOf(key));
  const inOrder = sorted(filtered(rows, options.filter), options.sort, false);
  const isLate = !deadline.signal.aborted;
  const missingNames = isLate ? "no answer within 10 s" : names.missingReason;
  for (const note of notesOf({ isCounting: isOn, missingNames })) parts.writeErr(`${note}\n`);
  if (last.ids.length === 0) parts.writeErr("No virtual servers on this node\n");
  else if (inOrder.length === 0) parts.writeErr(`No row holds ${JSON.stringify(options.filter)}\n`);
  parts.writeOut(
    options.format === "json"
      ? jsonText(inOrder, { isCounting: isOn, seconds: (last.atMs - first.atMs) / 1_000 })
      : tableText(inOrder, isOn, parts.columns),
  );
}

function tableText(rows: readonly TopRow[], isOn: boolean, columns: number | undefined): string {
  const { titles, lines } = serviceTable(rows, { isCounting: isOn });
  const cut = (line: string): string => (columns === undefined ? line : line.slice(0, columns));
  return [titles, ...lines].map((line) => `${cut(line)}\n`).join("");
}

/** The form is part of what scripts rely on. */
function jsonText(
  rows: readonly TopRow[],
  { isCounting: isOn, seconds }: { readonly isCounting: boolean; readonly seconds: number },
): string {
  const items = rows.map(({ owner, protocol, servers, figures }) => {
    const { activeConnections, inactiveConnections, total, rates } = figures;
    return {
      ...(owner === undefined ? {} : namesOf(owner)),
      protocol,
      virtualServers: servers.map(({ address, port }) => ({ address, port })),
      activeConnections,
      inactiveConnections,
      total,
      ...(rates === undefined || !isOn ? {} : { perSecond: rates }),
    };
  });
  const answer = {
    apiVersion: "kube-ipvs/v1",
    kind: "TrafficList",
    intervalSeconds: Math.round(seconds * 1_000) / 1_000,
    estimator: isOn ? "on" : "off",
    items,
  };
  return `${JSON.stringify(answer, undefined, 2)}\n`;
}

function namesOf(owner: NonNullable<TopRow["owner"]>): object {
  const { namespace, name, portName } = owner;
  return { namespace, name, ...(portName === "" ? {} : { portName }) };
}
