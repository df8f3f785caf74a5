/** Shows the history of drift and rejections. Pure. */
import type { Answers } from "./answers.ts";
import { type Column, table, type View } from "./render.ts";
import type { HistoryEntry } from "./rows.ts";

const columns: readonly Column<HistoryEntry>[] = [
  { title: "TIME", cell: ({ time }) => time },
  { title: "EVENT", cell: ({ event }) => event },
  { title: "OBJECT", cell: ({ subject }) => subject },
  { title: "SERVICES", cell: ({ services = [] }) => services.join(", "), drop: 1 },
  { title: "CHANGED-BY", cell: ({ changedBy }) => changedBy, drop: 2 },
  { title: "DETAIL", cell: ({ detail }) => detail },
];

export const historyView: View<Answers["History"]> = {
  blocks: ({ items }) =>
    items.length === 0
      ? ["No drift and no rejected changes since the daemon started"]
      : [table(columns, items)],
};
