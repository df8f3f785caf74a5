/** Prints docs/reports/packet-paths.md from a run: `make packet-paths`. */
import { documentText } from "./document.ts";
import { runPacketPaths } from "./run.ts";

process.stdout.write(documentText(await runPacketPaths()));
process.exit(0);
