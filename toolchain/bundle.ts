/**
 * Builds dist/: the program as one bundle, the netlink addon and the Node.js binary next to it, and a launcher under
 * both names. Code that only a cluster needs is in separate chunks, which are loaded when they are used.
 *
 * The bundle uses CommonJS modules. An ES module that imports "node:http" makes Node.js load all exports of that
 * module, including a second HTTP client and WebSocket, while `require` loads only those that are used. CommonJS and
 * `narrow-packages.ts` together save 18 MB of memory and half of the startup time.
 */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { bundleProgram, moduleEnding } from "./bundle-program.ts";
import { readThirdParty, thirdPartyText } from "./third-party.ts";

const project: string = join(import.meta.dirname, "..");
const dist: string = join(project, "dist");
const library: string = join(dist, "lib");
const addon: string = join(project, "build/native-shim", process.arch, "netlink_socket.node");
/** The module that each launcher starts. */
const modulesByLauncher: Readonly<Record<string, string>> = {
  "kube-ipvs": "kube-ipvs",
  "kube-proxy": "kube-ipvs",
  "kube-ipvs-e2e": "kube-ipvs-e2e",
};

/** Writes the program's files, and the licenses of their contents. */
async function placeProgram(): Promise<void> {
  const { files, packageFolders } = await bundleProgram(project);
  for (const [name, text] of files) writeFileSync(join(library, name), text);
  const parties = packageFolders.map((folder) => readThirdParty(join(project, folder)));
  writeFileSync(join(library, "THIRD-PARTY.txt"), thirdPartyText(parties));
}

/** Places the running Node.js in dist/lib, as a hard link if the file system allows it. */
function placeNode(): void {
  const target = join(library, "node");
  try {
    linkSync(process.execPath, target);
  } catch {
    copyFileSync(process.execPath, target);
    chmodSync(target, 0o755);
  }
}

function placeLaunchers(): void {
  const launcher = readFileSync(join(import.meta.dirname, "launcher.sh"), "utf8");
  for (const [name, module] of Object.entries(modulesByLauncher)) {
    const text = launcher.replace(`/kube-ipvs${moduleEnding}"`, `/${module}${moduleEnding}"`);
    writeFileSync(join(dist, name), text, { mode: 0o755 });
  }
}

/** Runs each program once, which proves that it starts and fills the compile cache for the next start. */
function tryPrograms(): void {
  run("kube-ipvs-e2e", "ask", "[]");
  run("kube-ipvs-e2e", "--help");
  const version = run("kube-ipvs", "--version").trim();
  console.log(`dist/kube-ipvs: ${version}, ${kilobytes(library, moduleEnding)} kB of program`);
}

function run(name: string, ...args: readonly string[]): string {
  const path = join(dist, name);
  const { status, stdout, stderr } = spawnSync(path, args, { cwd: "/", encoding: "utf8" });
  if (status !== 0) throw new Error(`dist/${name} ${args.join(" ")} failed (${status}): ${stderr}`);
  return stdout;
}

function kilobytes(folder: string, ending: string): number {
  const names = readdirSync(folder).filter((name) => name.endsWith(ending));
  const bytes = names.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  return Math.round(bytes / 1000);
}

rmSync(dist, { recursive: true, force: true });
mkdirSync(library, { recursive: true });
await placeProgram();
cpSync(addon, join(library, "netlink_socket.node"));
placeNode();
placeLaunchers();
tryPrograms();
