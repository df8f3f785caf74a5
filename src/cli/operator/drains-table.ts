/** What drains as a table. Pure. */
import { durationText } from "../../base/duration-text.ts";
import { hostPort } from "../../base/ip.ts";
import { type Column, tableLines } from "../../base/table.ts";
import type { DrainRow } from "../../daemon/operator/answers.ts";

const columns: readonly Column<DrainRow>[] = [
  { title: "AGE", text: ({ ageSeconds }) => durationText(ageSeconds) },
  {
    title: "DEADLINE",
    text: ({ deadlineInSeconds }) =>
      deadlineInSeconds === undefined ? "none" : `in ${durationText(deadlineInSeconds)}`,
  },
  { title: "NAMESPACE", text: ({ namespace = "" }) => namespace },
  { title: "NAME", text: ({ name = "" }) => name },
  { title: "PROTO", text: ({ protocol }) => protocol },
  { title: "VIRTUAL-SERVER", text: ({ address, port }) => hostPort(address, port) },
  { title: "REAL-SERVER", text: ({ realServer: { address, port } }) => hostPort(address, port) },
  { title: "ACTIVE", text: (row) => String(row.activeConnections), isNumber: true },
  { title: "INACTIVE", text: (row) => String(row.inactiveConnections), isNumber: true },
];

export function drainsTable(rows: readonly DrainRow[], width?: number): readonly string[] {
  return tableLines(columns, rows, width);
}
