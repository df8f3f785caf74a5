/** Prints docs/reports/packet-paths-modes.md from a run: `make packet-paths`. Fails where `explain` says otherwise. */
import { modesDocumentText } from "./document.ts";
import { explainedOtherwise } from "./explained-otherwise.ts";
import { runModes } from "./run-modes.ts";

const all = await runModes("all");
const otherwise = all.flatMap(({ given, results }) =>
  explainedOtherwise(results).map((line) => `Mode ${given.mode}: ${line}\n`),
);
process.stdout.write(modesDocumentText(all));
process.stderr.write(otherwise.join(""));
process.exit(otherwise.length === 0 ? 0 : 1);
