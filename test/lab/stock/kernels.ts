/** Runs `node.test.ts` on Debian's kernels, and on the same kernels without iptables and ipset. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { parseTestSummary } from "../../queue/test-summary.ts";
import { type Backend, type Measured, stockSuite } from "../kernels-report.ts";
import { runOnStock } from "./boot.ts";

interface StockRelease {
  readonly name: string;
  /** Debian's suite. */
  readonly suite: string;
  readonly architecture: "amd64" | "arm64";
}

const releases: readonly StockRelease[] = [
  { name: "debian-12", suite: "bookworm", architecture: "amd64" },
  { name: "debian-13", suite: "trixie", architecture: "amd64" },
  { name: "debian-sid", suite: "sid", architecture: "amd64" },
  { name: "debian-13-arm64", suite: "trixie", architecture: "arm64" },
];

const project: string = join(import.meta.dirname, "../../..");
const cache: string = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");

export async function runOnStockKernels(
  names: readonly string[],
  backends: readonly Backend[],
): Promise<readonly Measured[]> {
  const unknown = names.filter((name) => !releases.some((one) => one.name === name));
  if (unknown.length > 0) {
    const known = releases.map(({ name }) => name).join(", ");
    throw new Error(`Unknown kernel ${unknown.join(" ")}: must be ${known}`);
  }
  const measured: Measured[] = [];
  for (const release of releases.filter(({ name }) => names.includes(name))) {
    for (const backend of backends) measured.push(await runOne(release, backend));
  }
  return measured;
}

async function runOne(release: StockRelease, backend: Backend): Promise<Measured> {
  const { name, suite, architecture } = release;
  const folder = join(cache, "kube-ipvs/stock-kernels", name);
  const prepare = (script: string, ...args: readonly string[]): void =>
    void execFileSync(join(import.meta.dirname, script), args, { stdio: ["ignore", 2, 2] });
  prepare("fetch-kernel.sh", folder, suite, architecture);
  if (architecture === "arm64") prepare("build-arm64.sh");
  const version = readFileSync(join(folder, "release"), "utf8").trim();
  console.log(`\n${version}, ${architecture}, iptables: ${backend}`);
  const node = architecture === "arm64" ? join(project, "dist/lib") : dirname(process.execPath);
  const { status, output } = await runOnStock(
    { folder, architecture, ...(architecture === "arm64" ? { root: join(folder, "root") } : {}) },
    backend !== "none",
    [
      `cd ${project} && export PATH=${node}:$PATH LAB_KIND=lab-kernel HOME=/root`,
      ...(backend === "none" ? ["export TEST_RULES=nftables"] : []),
      "node --test-reporter=spec test/lab/stock/node.test.ts",
    ],
  );
  const summary = parseTestSummary(output);
  const failing = [...output.matchAll(/^ +✖ (.+) \([0-9.]+ms\)/gm)].map(([, title = ""]) => title);
  const red = summary === undefined ? [`did not finish: exit status ${status}`] : failing;
  const { passed, failed } = summary ?? { passed: 0, failed: 1 };
  return { release: version, backend, suite: stockSuite, passed, failed, red };
}
