/**
 * Writes a release's artifacts: `node toolchain/release/main.ts TARGET [ROOT]`, where ROOT is the assembled root for
 * this machine's architecture (by default, a new one). See README.md.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Bom } from "../sbom.ts";
import { schemaProblems } from "../sbom-schema.ts";
import { gzipped, plainMode, tarOf } from "./archive.ts";
import { imageBill, packagesOf } from "./bill.ts";
import { packageChart } from "./chart.ts";
import { type Architecture, type Image, imageOf, indexOf } from "./image.ts";
import { archiveOf, digestOf, layoutOf } from "./layout.ts";
import { placeManifests } from "./manifests.ts";
import { releaseNotes } from "./notes.ts";
import { krewManifest, pluginArchive } from "./plugin.ts";

// Modes of archive members must not depend on the caller's umask.
process.umask(0o022);

const project: string = join(import.meta.dirname, "../..");
const target = resolve(process.argv[2] ?? join(project, "build/release"));
const givenRoot = process.argv[3];
const { version } = JSON.parse(readFileSync(join(project, "package.json"), "utf8")) as {
  readonly version: string;
};
const repository = process.env["IMAGE"] || "localhost/kube-ipvs";
const projectUrl = process.env["PROJECT_URL"] ?? "";
const work = `${target}.work`;
const assembleRoot = join(project, "deploy/image/assemble-root.sh");

/** git's output, or an empty text outside a repository. */
function git(...args: readonly string[]): string {
  try {
    return execFileSync("git", ["-C", project, ...args], {
      encoding: "utf8",
      stdio: "pipe",
    }).trim();
  } catch {
    return "";
  }
}

const isChanged = git("status", "--porcelain") !== "";
const revision = `${git("rev-parse", "HEAD")}${isChanged ? "-dirty" : ""}`;
const epochSeconds = Number(
  process.env["SOURCE_DATE_EPOCH"] || git("log", "-1", "--format=%ct") || "0",
);

function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ["ignore", "ignore", "inherit"] });
}

/**
 * Roots by architecture. An arm64 machine has no cross compiler for amd64 in packages.txt, so it creates only its own
 * root.
 */
function assembleRoots(): ReadonlyMap<Architecture, string> {
  const own: Architecture = process.arch === "arm64" ? "arm64" : "amd64";
  const ownRoot = givenRoot ?? join(work, `root-${own}`);
  if (givenRoot === undefined) run(assembleRoot, ownRoot);
  const roots = new Map<Architecture, string>([[own, ownRoot]]);
  if (own === "arm64") {
    console.log("amd64: not built: this machine is arm64");
    return roots;
  }
  const [program, root] = [join(work, "program-arm64"), join(work, "root-arm64")];
  run(join(import.meta.dirname, "program.sh"), program);
  run(assembleRoot, root, "arm64", program);
  return roots.set("arm64", root);
}

function write(name: string, bytes: Buffer | string): void {
  writeFileSync(join(target, name), bytes);
}

function writeBill(architecture: Architecture, root: string): void {
  const program = JSON.parse(readFileSync(join(project, "dist/sbom.cdx.json"), "utf8")) as Bom;
  const bill = imageBill(program, packagesOf(root));
  const problems = schemaProblems(bill);
  if (problems.length > 0) throw new Error(`sbom-${architecture}: ${problems.join("; ")}`);
  write(`sbom-${architecture}.cdx.json`, `${JSON.stringify(bill, undefined, 2)}\n`);
}

/**
 * Writes the licenses of the project, the bundle, Node.js and Debian's packages, which are the same for each
 * architecture.
 */
function writeLicenses(root: string): void {
  const folder = join(work, "licenses");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  cpSync(join(project, "LICENSE"), join(folder, "LICENSE"));
  cpSync(join(project, "dist/lib/THIRD-PARTY.txt"), join(folder, "THIRD-PARTY.txt"));
  cpSync(join(nodePackage(), "LICENSE"), join(folder, "node-LICENSE"));
  cpSync(join(root, "usr/share/doc"), join(folder, "debian"), {
    recursive: true,
    verbatimSymlinks: true,
  });
  write(
    `kube-ipvs-${version}-licenses.tar.gz`,
    gzipped(tarOf(folder, { epochSeconds, mode: plainMode })),
  );
}

/** The package of the Node.js in dist/. */
function nodePackage(): string {
  return join(process.execPath, "../..");
}

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
mkdirSync(work, { recursive: true });
const roots = assembleRoots();
const images = new Map<Architecture, Image>();
for (const [architecture, root] of roots) {
  const image = imageOf(root, { architecture, version, revision, epochSeconds, projectUrl });
  images.set(architecture, image);
  const layout = layoutOf(image.manifest, image.blobs, `kube-ipvs:${version}`);
  const archive = archiveOf(layout, join(work, `oci-${architecture}`), epochSeconds);
  write(`kube-ipvs-${version}-${architecture}.oci.tar`, archive);
  writeBill(architecture, root);
}
const all = [...images.values()];
const index = indexOf(all);
const blobs = all.flatMap((image) => [image.manifest, ...image.blobs]);
const everything = layoutOf(index, blobs, `kube-ipvs:${version}`);
write(`kube-ipvs-${version}.oci.tar`, archiveOf(everything, join(work, "oci"), epochSeconds));
writeLicenses([...roots.values()][0] ?? "");

const changelog = readFileSync(join(project, "CHANGELOG.md"), "utf8");
const chart = { repository, version, epochSeconds, projectUrl, changelog };
const chartFolder = join(work, "chart/kube-ipvs");
write(
  `kube-ipvs-${version}.tgz`,
  packageChart(join(project, "deploy/helm/kube-ipvs"), chartFolder, chart),
);
write(
  `kube-ipvs-${version}-schemas.tar.gz`,
  gzipped(tarOf(join(project, "docs/schemas"), { epochSeconds, mode: plainMode })),
);
placeManifests(project, join(work, "manifests"), { repository, version });
write(
  `kube-ipvs-${version}-manifests.tar.gz`,
  gzipped(tarOf(join(work, "manifests"), { epochSeconds, mode: plainMode })),
);

const plugin = pluginArchive(project, epochSeconds);
const pluginName = `kubectl-kube_ipvs-${version}.tar.gz`;
write(pluginName, plugin);
const homepage = projectUrl || "https://localhost/kube-ipvs";
write("krew.yaml", krewManifest(plugin, pluginName, { version, projectUrl: homepage }));

const written = readFileSync(join(project, `docs/releases/${version}.md`), "utf8");
write(
  "RELEASE-NOTES.md",
  releaseNotes(written, {
    version,
    revision,
    repository,
    nodeVersion: process.versions.node,
    indexDigest: index.descriptor.digest,
    images: [...images].map(([architecture, image]) => ({
      architecture,
      digest: image.manifest.descriptor.digest,
      size: image.blobs.reduce((sum, { descriptor }) => sum + descriptor.size, 0),
      packages: packagesOf(roots.get(architecture) ?? ""),
    })),
  }),
);
const sums = readdirSync(target)
  .toSorted()
  .map(
    (name) => `${digestOf(readFileSync(join(target, name))).slice("sha256:".length)}  ${name}\n`,
  );
write("SHA256SUMS", sums.join(""));
process.stdout.write(sums.join(""));
