/** `kube-ipvs explain`. */
import { parseJson } from "../../base/parse-json.ts";
import { answerText } from "../../base/structured-text.ts";
import { apiVersion, type PlanFacts, type PlanQuery } from "../../daemon/operator/answers.ts";
import { planTarget } from "../../daemon/operator/plan-query.ts";
import type { Explanation } from "../../explain/explanation.ts";
import type { From } from "../../explain/origins.ts";
import { explainQuestion } from "./explain-question.ts";
import { explanationText, shortExplanationText } from "./explanation-text.ts";
import {
  answererOf,
  exitCodes,
  type Question,
  type QuestionWorld,
  type WithoutDaemon,
} from "./question.ts";

/** The parts that need the kernel or a source of objects. */
export interface Explainer {
  readonly withoutDaemon: WithoutDaemon;
  explain(facts: PlanFacts, from: From | undefined): Promise<readonly Explanation[]>;
}

/** Prints explanations. Rejects where there is nothing to say, and says why. */
export async function runExplain(
  question: Question,
  world: QuestionWorld,
  explainer: Explainer,
): Promise<number> {
  const { query, from } = explainQuestion(question);
  const { withoutDaemon } = explainer;
  const answer = answererOf(question, world, withoutDaemon, "planning as a start would");
  const facts = parseJson(await answer(planTarget(query))) as PlanFacts;
  if (facts.destinations.length === 0) throw new Error(nothingText(query));
  const items = await explainer.explain(facts, from);
  if (facts.isTruncated) {
    world.writeErr(`Only the first ${items.length} addresses are explained\n`);
  }
  const list = { apiVersion, kind: "ExplanationList", items };
  const format = question.options.get("output");
  const forPeople = (): string =>
    format === "short" ? shortExplanationText(items) : explanationText(items, world.columns?.());
  world.writeOut(answerText(format, list, forPeople));
  return exitCodes.ok;
}

function nothingText(query: PlanQuery): string {
  if (query.kind === "destination") return "Nothing to explain";
  return (
    `Service ${query.namespace}/${query.name} has no address that is served: there is no such Service (-n: its namespace), ` +
    "or it is headless, of type ExternalName, or of a family that is not served"
  );
}
