import type { Answers } from "../../answer/answers.ts";
import type { Explanation } from "../../answer/explanation.ts";
import { planTarget } from "../../answer/questions.ts";
import { askDaemon, type Question } from "../../daemon/operator/ask-daemon.ts";
import { explainWith } from "../../explain/explain.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import type { Node } from "../node.ts";

/** Reads the status of this node's daemon. Throws if the daemon's answer is an error. */
export async function readDaemon(path: string): ReturnType<Node["daemon"]> {
  return await ask(path, { kind: "Status", target: "/v1/status" });
}

/** Returns the node ports of all Services. Empty without a daemon. */
export async function readNodePorts(path: string): Promise<readonly number[]> {
  const list = await ask(path, { kind: "ServiceList", target: "/v1/services" });
  if ("skipped" in list) return [];
  return list.items.flatMap(({ frontend, port }) => (frontend === "node-port" ? [port] : []));
}

/** The daemon provides the plan. The kernel state is read here. */
export async function readPackets(
  path: string,
  readers: KernelReaders,
): Promise<readonly Explanation[]> {
  const facts = await ask(path, { kind: "PlanFacts", target: planTarget({ kind: "sample" }) });
  if ("skipped" in facts) throw new Error(facts.skipped);
  return await explainWith(readers, facts, undefined, { hasConnections: false });
}

async function ask<Kind extends keyof Answers>(
  path: string,
  question: Question<Kind>,
): Promise<Answers[Kind] | { readonly skipped: string }> {
  const asked = await askDaemon(path, question);
  if (asked.kind === "answer") return asked.answer;
  if (asked.kind === "failed")
    throw new Error(`Cannot query kube-ipvs on ${path}: ${asked.reason}`);
  return { skipped: `no kube-ipvs answers on ${path} (${asked.reason})` };
}
