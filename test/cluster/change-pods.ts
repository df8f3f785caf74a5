/**
 * `change-pods.ts CREDENTIALS NAMESPACE SECONDS POD…`: makes one change per second, as a kubelet would report it. A pod
 * becomes unready, then ready again, then it is the next pod's turn.
 */
import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gateway } from "./network.ts";

const [folder = "", namespace = "", seconds = "", ...pods] = process.argv.slice(2);
const read = (file: string): Buffer => readFileSync(join(folder, file));
const agent = new Agent({
  keepAlive: true,
  ...{ ca: read("ca.crt"), cert: read("admin.crt"), key: read("admin.key") },
});

async function setReady(pod: string, status: "True" | "False"): Promise<void> {
  const lastTransitionTime = new Date().toISOString();
  const conditions = [{ type: "Ready", status, lastTransitionTime }];
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const patch = request(
    {
      ...{ agent, host: gateway, port: 6443, method: "PATCH" },
      path: `/api/v1/namespaces/${namespace}/pods/${pod}/status`,
      headers: { "Content-Type": "application/merge-patch+json" },
    },
    (response) => {
      response.resume();
      response.once("end", () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`${pod}: ${response.statusCode}`));
      });
    },
  );
  patch.once("error", reject);
  patch.end(JSON.stringify({ status: { conditions } }));
  await promise;
}

const begin = performance.now();
for (let second = 0; second < Number(seconds); second += 1) {
  const pod = pods[Math.floor(second / 2) % pods.length] ?? "";
  await setReady(pod, second % 2 === 0 ? "False" : "True");
  await sleep(Math.max(0, begin + (second + 1) * 1_000 - performance.now()));
}
