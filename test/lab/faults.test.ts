/** Tests API server, machine and resource faults in their short form: see test/faults/README.md. */
import { describeFaults } from "../faults/describe-faults.ts";
import { apiServer } from "../faults/rows/api-server.ts";
import { control } from "../faults/rows/control.ts";
import { kernelRows } from "../faults/rows/kernel.ts";
import { lists } from "../faults/rows/lists.ts";
import { processRows } from "../faults/rows/process.ts";

describeFaults([...control, ...apiServer, ...lists, ...processRows, ...kernelRows]);
