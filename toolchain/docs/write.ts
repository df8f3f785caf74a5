/** Writes the generated documents: `make docs`. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { documents } from "./documents.ts";

const project: string = join(import.meta.dirname, "../..");
for (const [path, text] of Object.entries(documents)) writeFileSync(join(project, path), text());
