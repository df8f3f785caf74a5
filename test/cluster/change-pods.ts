/**
 * `change-pods.ts CREDENTIALS NAMESPACE SECONDS POD…`: makes one change per second, as a kubelet would report it. Each
 * pod becomes unready in its turn, then each becomes ready again. Each change is made just after a full second begins,
 * because the API server rounds a condition's time down to full seconds, and the latency is measured from this time.
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

/** Later than any rounding of timers. */
const afterFullSecondMs = 5;
const beginMs = Math.ceil(Date.now() / 1_000) * 1_000 + afterFullSecondMs;
for (let second = 0; second < Number(seconds); second += 1) {
  await sleep(Math.max(0, beginMs + second * 1_000 - Date.now()));
  const round = Math.floor(second / pods.length);
  await setReady(pods[second % pods.length] ?? "", round % 2 === 0 ? "False" : "True");
}
