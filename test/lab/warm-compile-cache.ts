/**
 * Fills the compile cache (NODE_COMPILE_CACHE) with the tests of the lab and what they import, and runs none of them:
 *
 *     NODE_COMPILE_CACHE=FOLDER node test/lab/warm-compile-cache.ts
 *
 * In a lab kernel a start of Node.js with a test takes twice as long without; what is written there is gone with it.
 */
import { globSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const project = join(import.meta.dirname, "../..");
const folders = ["lab", "faults", "support", "demo", "golden", "packet-paths"];

/** Imported first: modules are all compiled before the first one runs, and this one ends the process. */
const ending = "data:text/javascript,process.exit(0)";

const sources = globSync(`test/{${folders.join(",")}}/**/*.ts`, { cwd: project });
const urls = [ending, ...sources.map((path) => pathToFileURL(join(project, path)).href)];
const text = urls.map((url) => `import ${JSON.stringify(url)};\n`).join("");
await import(`data:text/javascript,${encodeURIComponent(text)}`);
