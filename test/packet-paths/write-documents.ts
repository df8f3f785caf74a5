/**
 * Writes the output of print-document.ts to a page in docs/reports/ and its data file: `node write-documents.ts PRINTED
 * NAME`.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const reports = join(import.meta.dirname, "../../docs/reports");
const [printed = "", name = ""] = process.argv.slice(2);
const [page, data] = readFileSync(printed, "utf8").split("\f");
if (page === undefined || data === undefined) throw new Error(`${printed} is incomplete`);
writeFileSync(join(reports, `${name}.md`), page);
writeFileSync(join(reports, "data", `${name}.tsv`), data);
