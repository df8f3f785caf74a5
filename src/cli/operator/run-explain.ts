/** `kube-ipvs explain`. */
import { parseJson } from "../../base/parse-json.ts";
import { answerText } from "../../base/structured-text.ts";
import { apiVersion, type PlanFacts, type PlanQuery } from "../../daemon/operator/answers.ts";
import { askDaemon } from "../../daemon/operator/ask-daemon.ts";
import { planTarget } from "../../daemon/operator/plan-query.ts";
import type { Explanation } from "../../explain/explanation.ts";
import type { From } from "../../explain/origins.ts";
import { explainQuestion } from "./explain-question.ts";
import { explanationText, shortExplanationText } from "./explanation-text.ts";
import { exitCodes, type Question, type QuestionWorld } from "./question.ts";

/** The parts that need the kernel or a source of objects. */
export interface Explainer {
  /** Without a daemon. */
  planFacts(query: PlanQuery): Promise<PlanFacts>;
  explain(facts: PlanFacts, from: From | undefined): Promise<readonly Explanation[]>;
}

/** Prints explanations. Rejects where there is nothing to say, and says why. */
export async function runExplain(
  question: Question,
  world: QuestionWorld,
  explainer: Explainer,
): Promise<number> {
  const { query, from } = explainQuestion(question);
  const facts = await factsFor(query, question, world, explainer);
  if (facts.destinations.length === 0) throw new Error(nothingText(query));
  const items = await explainer.explain(facts, from);
  if (facts.isTruncated) {
    world.writeErr(`Only the first ${items.length} addresses are explained\n`);
  }
  const answer = { apiVersion, kind: "ExplanationList", items };
  const format = question.options.get("output");
  const forPeople = (): string =>
    format === "short" ? shortExplanationText(items) : explanationText(items, world.columns?.());
  world.writeOut(answerText(format, answer, forPeople));
  return exitCodes.ok;
}

async function factsFor(
  query: PlanQuery,
  { config }: Question,
  world: QuestionWorld,
  explainer: Explainer,
): Promise<PlanFacts> {
  const path = config.operatorSocketPath;
  const reply = await askDaemon(path, planTarget(query));
  if (reply.kind === "answer") return parseJson(reply.text) as PlanFacts;
  if (reply.kind === "failed") throw new Error(`Cannot ask kube-ipvs on ${path}: ${reply.reason}`);
  world.writeErr(
    `No kube-ipvs on this node answers on ${path} (${reply.reason}): planning as a start would\n`,
  );
  return await explainer.planFacts(query);
}

function nothingText(query: PlanQuery): string {
  if (query.kind === "destination") return "Nothing to explain";
  return (
    `Service ${query.namespace}/${query.name} has no address that is served: there is no such Service (-n: its namespace), ` +
    "or it is headless, of type ExternalName, or of a family that is not served"
  );
}
