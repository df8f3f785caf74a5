/** `make demo`: runs the demo on a kernel with IPVS. Exit status 0 only if every step succeeds. */
import { findLab, runInLab } from "../lab/lab.ts";

const options = { cpu: 0, memory: "2G", timeoutSeconds: 180, ipvs: "present" } as const;

async function main(): Promise<number> {
  const lab = findLab();
  if (lab.kind === "none") {
    console.error(`demo: ${lab.missing}`);
    return 1;
  }
  const where = lab.kind === "host" ? "in namespaces of this machine" : "in a lab kernel";
  console.log(`Running the demo ${where}`);
  process.env["DEMO_COLOUR"] ??= process.stdout.isTTY === true ? "yes" : "no";
  const abort = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => abort.abort());
  const output = {
    stdout: (chunk: Buffer): void => void process.stdout.write(chunk),
    stderr: (chunk: Buffer): void => void process.stderr.write(chunk),
  };
  const argv = ["node", "test/demo/story.ts"];
  const result = await runInLab(lab, argv, options, output, abort.signal);
  if (result.kind === "exited") return result.status;
  console.error(result.kind === "timed-out" ? "demo: timed out" : "demo: the lab exited early");
  return 1;
}

process.exitCode = await main();
