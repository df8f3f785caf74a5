/**
 * Fills the compile cache (NODE_COMPILE_CACHE) with the lab tests and their imports, without running them:
 * NODE_COMPILE_CACHE=FOLDER node test/lab/warm-compile-cache.ts. Without the cache, starting a test in a lab kernel
 * takes twice as long, because files that are written there are lost.
 */
import { globSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const project = join(import.meta.dirname, "../..");
const folders = ["lab", "faults", "support", "demo", "golden", "packet-paths"];

/** Imported first. All modules are compiled before the first one runs, and this module ends the process. */
const ending = "data:text/javascript,process.exit(0)";

const sources = globSync(`test/{${folders.join(",")}}/**/*.ts`, { cwd: project });
const urls = [ending, ...sources.map((path) => pathToFileURL(join(project, path)).href)];
const text = urls.map((url) => `import ${JSON.stringify(url)};\n`).join("");
await import(`data:text/javascript,${encodeURIComponent(text)}`);
