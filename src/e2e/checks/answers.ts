/** Sends questions to backends and checks their answers. */
import { hostPort } from "../../base/ip.ts";
import type { Answer, Answers, Question } from "../pod/conversation.ts";
import type { Backend } from "../scene.ts";
import type { Vantage } from "../vantage.ts";

export interface Finding {
  readonly answers: readonly Answer[];
  readonly problems: readonly string[];
}

/** `count` connections, one after the other. */
export function tcp(address: string, port: number, count: number): Question {
  return { protocol: "TCP", address, port, count };
}

/** Asks a question. Each attempt must reach a wanted backend. */
export async function reach(
  vantage: Vantage,
  question: Question,
  wanted: readonly Backend[],
): Promise<Finding> {
  const found = await vantage.ask(question);
  const problems = reachProblems(vantage.label, question, found, wanted);
  return { answers: found.answers, problems };
}

/** Asks a question. No attempt may be answered. */
export async function silence(vantage: Vantage, question: Question): Promise<Finding> {
  const { answers } = await vantage.ask(question);
  return { answers, problems: reachProblems(vantage.label, question, { answers, errors: [] }, []) };
}

/** Describes failed attempts and answers from unwanted backends. `from` is the label of a Vantage. Pure. */
export function reachProblems(
  from: string,
  { address, port, protocol }: Question,
  { answers, errors }: Answers,
  wanted: readonly Backend[],
): readonly string[] {
  const names = new Set(wanted.map(({ name }) => name));
  const strangers = answers.map(({ name }) => name).filter((name) => !names.has(name));
  const target = `from ${from} to ${hostPort(address, port)}/${protocol}`;
  return [
    ...countedTexts(errors).map((error) => `${target}: ${error}`),
    ...countedTexts(strangers).map((name) => `${target}: answered by ${name}`),
  ];
}

/** Lists each text once, with its count if it occurs repeatedly: `timeout (3 times)`. */
function countedTexts(texts: readonly string[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].map(([text, count]) => (count === 1 ? text : `${text} (${count} times)`));
}
