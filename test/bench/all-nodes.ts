/**
 * Measures `kubectl kube-ipvs status --all-nodes` in a cluster of 50 nodes, one of which does not answer. Its limit is
 * 5 s. `node test/bench/all-nodes.ts [runs]`
 */
import { ManyPods } from "../support/many-pods.ts";

const runs = Number(process.argv[2] ?? 5);
const mostMs = 5_000;

const many = new ManyPods();
for (let run = 0; run < runs; run += 1) {
  const beganMs = performance.now();
  const { stdout } = many.run(["status", "--all-nodes"]);
  const elapsedMs = performance.now() - beganMs;
  console.log(`${stdout.split("\n").length - 2} nodes in ${elapsedMs.toFixed(0)} ms`);
  if (elapsedMs > mostMs) process.exitCode = 1;
}
many.remove();
