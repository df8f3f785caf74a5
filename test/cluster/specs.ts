/** Runs e2e.test on the cluster, and prints a line when a spec ends. */
import { spawn } from "node:child_process";
import { createWriteStream, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { LabCluster } from "./cluster.ts";
import {
  type GinkgoReport,
  progressReader,
  type Selection,
  type SpecResult,
  specResults,
} from "./ginkgo.ts";
import { inNamespace } from "./network.ts";

/** Runs the specs in a single process. The processors must be otherwise idle, because a spec may take at most 100 s. */
export async function runSpecs(
  cluster: LabCluster,
  selection: Selection,
): Promise<readonly SpecResult[]> {
  const { kubernetes } = cluster;
  const { focus, skip } = selection;
  const folder = join(cluster.folder, "e2e");
  mkdirSync(folder, { recursive: true });
  const report = join(folder, "report.json");
  const log = createWriteStream(join(folder, "log"));
  const [program = "", ...args] = inNamespace(
    kubernetes.program("e2e.test"),
    `--kubeconfig=${cluster.kubeconfig}`,
    `--kubectl-path=${cluster.kubectl}`,
    "--provider=skeleton",
    `--num-nodes=${cluster.nodeNames.length}`,
    "--disable-log-dump=true",
    `--report-dir=${folder}`,
    `--ginkgo.json-report=${report}`,
    `--ginkgo.focus=${focus}`,
    ...(skip === "" ? [] : [`--ginkgo.skip=${skip}`]),
    "--ginkgo.timeout=24h",
    "--ginkgo.v",
    "--ginkgo.no-color",
  );
  const child = spawn("setpriv", ["--pdeathsig", "KILL", program, ...args], {
    cwd: folder,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, HOME: folder },
  });
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  child.once("error", () => resolve());
  child.once("close", () => resolve());
  const stop = (): void => void child.kill("SIGKILL");
  cluster.signal.addEventListener("abort", stop, { once: true });
  child.stdout.pipe(log);
  child.stderr.pipe(log);
  const read = progressReader();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const progress = read(line);
    if (progress !== undefined) console.log(progress);
  });
  await ended;
  cluster.signal.removeEventListener("abort", stop);
  cluster.signal.throwIfAborted();
  if (!existsSync(report)) throw new Error(`e2e.test wrote no report: see ${join(folder, "log")}`);
  return specResults(JSON.parse(readFileSync(report, "utf8")) as GinkgoReport, selection);
}
