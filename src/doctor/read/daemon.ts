import { readAnswer } from "../../answer/answer.ts";
import { askDaemon } from "../../daemon/operator/ask-daemon.ts";
import type { Node } from "../node.ts";

/** Reads the status of this node's daemon. Throws if the daemon's answer is an error. */
export async function readDaemon(path: string): ReturnType<Node["daemon"]> {
  const reply = await askDaemon(path, "/v1/status");
  switch (reply.kind) {
    case "answer":
      return readAnswer("Status", reply.text);
    case "absent":
      return { skipped: `no kube-ipvs answers on ${path} (${reply.reason})` };
    case "failed":
      throw new Error(`Cannot ask kube-ipvs on ${path}: ${reply.reason}`);
  }
}
