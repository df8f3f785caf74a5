/** Tests all paths, and prints docs/reports/packet-paths.md, a form feed and its data file: `make packet-paths`. */
import { dataText, documentText } from "./document.ts";
import { runPacketPaths } from "./run.ts";

const results = await runPacketPaths();
process.stdout.write(`${documentText(results)}\f${dataText(results)}`);
process.exit(0);
