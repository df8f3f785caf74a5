/**
 * Tests all paths, and prints docs/reports/packet-paths-modes.md, a form feed and its data file: `make packet-paths`.
 * Fails if `explain` predicts other outcomes.
 */
import { modesDataText, modesDocumentText } from "./document.ts";
import { explainedOtherwise } from "./explained-otherwise.ts";
import { runModes } from "./run-modes.ts";

const all = await runModes("all");
const otherwise = all.flatMap(({ given, results }) =>
  explainedOtherwise(results).map((line) => `${given.mode}: ${line}\n`),
);
process.stdout.write(`${modesDocumentText(all)}\f${modesDataText(all)}`);
process.stderr.write(otherwise.join(""));
process.exit(otherwise.length === 0 ? 0 : 1);
