/** Prints docs/reports/packet-paths-modes.md from a run: `make packet-paths`. */
import { modesDocumentText } from "./document.ts";
import { runModes } from "./run-modes.ts";

process.stdout.write(modesDocumentText(await runModes("all")));
process.exit(0);
