/** Tests all paths, and prints docs/reports/packet-paths.md, a form feed and its data file: `make packet-paths`. */
import { dataText, documentText } from "./document.ts";
import { runPacketPaths } from "./run.ts";
import { allSections } from "./sections.ts";

const results = await runPacketPaths();
process.stdout.write(`${documentText(allSections)}\f${dataText(results)}`);
process.exit(0);
