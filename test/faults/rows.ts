import type { Row } from "./row.ts";
import { apiServer } from "./rows/api-server.ts";
import { control } from "./rows/control.ts";
import { kernelRows } from "./rows/kernel.ts";
import { kills } from "./rows/kills.ts";
import { lists } from "./rows/lists.ts";
import { netlink } from "./rows/netlink.ts";
import { processRows } from "./rows/process.ts";

/** Every fault, in report order. */
export const rows: readonly Row[] = [
  ...control,
  ...kills,
  ...apiServer,
  ...lists,
  ...processRows,
  ...netlink,
  ...kernelRows,
];
