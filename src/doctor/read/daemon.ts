import { parseJson } from "../../base/parse-json.ts";
import type { Status } from "../../daemon/operator/answers.ts";
import { askDaemon, statusTimeoutMs } from "../../daemon/operator/ask-daemon.ts";
import type { Node } from "../node.ts";

/** Asks the kube-ipvs of this node. */
export async function readDaemon(path: string): ReturnType<Node["daemon"]> {
  const reply = await askDaemon(path, "/v1/status", statusTimeoutMs);
  switch (reply.kind) {
    case "answer":
      return parseJson(reply.text) as Status;
    case "absent":
      return { skipped: `no kube-ipvs answers on ${path} (${reply.reason})` };
    case "failed":
      throw new Error(`Cannot ask kube-ipvs on ${path}: ${reply.reason}`);
  }
}
