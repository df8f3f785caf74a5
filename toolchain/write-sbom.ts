/** Writes dist/sbom.cdx.json from the lock file (`npm sbom`) and the bundle: `make sbom`. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundleProgram } from "./bundle-program.ts";
import { type Bom, completeBom } from "./sbom.ts";
import { schemaProblems } from "./sbom-schema.ts";
import { readThirdParty } from "./third-party.ts";

const project: string = join(import.meta.dirname, "..");
const { packageFolders } = await bundleProgram(project);
const parties = packageFolders.map((folder) => readThirdParty(join(project, folder)));
const args = ["sbom", "--sbom-format=cyclonedx", "--sbom-type=application", "--omit=dev"];
const text = execFileSync("npm", [...args, "--package-lock-only"], {
  cwd: project,
  encoding: "utf8",
  stdio: ["ignore", "pipe", "ignore"],
});
const bom = completeBom(JSON.parse(text) as Bom, {
  bundled: new Set(parties.map(({ name, version }) => `${name}@${version}`)),
  nodeVersion: process.versions.node,
});
const problems = schemaProblems(bom);
if (problems.length > 0)
  throw new Error(`Not CycloneDX ${bom.specVersion}: ${problems.join("; ")}`);
writeFileSync(join(project, "dist/sbom.cdx.json"), `${JSON.stringify(bom, undefined, 2)}\n`);
