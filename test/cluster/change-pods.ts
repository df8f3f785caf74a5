/**
 * `change-pods.ts CREDENTIALS NAMESPACE SECONDS POD…`: makes one change per second, as a kubelet would report it. A pod
 * becomes unready, then ready again, then it is the next pod's turn.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ApiClient } from "./api-client.ts";

const [folder = "", namespace = "", seconds = "", ...pods] = process.argv.slice(2);
const client = new ApiClient(folder);

async function setReady(pod: string, status: "True" | "False"): Promise<void> {
  const lastTransitionTime = new Date().toISOString();
  const conditions = [{ type: "Ready", status, lastTransitionTime }];
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}/status`;
  await client.patch(path, { status: { conditions } });
}

const begin = performance.now();
for (let second = 0; second < Number(seconds); second += 1) {
  const pod = pods[Math.floor(second / 2) % pods.length] ?? "";
  await setReady(pod, second % 2 === 0 ? "False" : "True");
  await sleep(Math.max(0, begin + (second + 1) * 1_000 - performance.now()));
}
