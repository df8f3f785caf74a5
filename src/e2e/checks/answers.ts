/** Questions to backends, and what is wrong with the answers. Pure. */
import { hostPort } from "../../base/ip.ts";
import type { Answers, Question } from "../pod/conversation.ts";
import type { Backend, Vantage } from "../scene.ts";
import type { Probe } from "./traffic.ts";

/** `count` connections, one after the other. */
export function tcp(address: string, port: number, count: number): Question {
  return { protocol: "TCP", address, port, count };
}

/** Asks, and each attempt has to reach one of these. */
export function reached(vantage: Vantage, question: Question, wanted: readonly Backend[]): Probe {
  return {
    vantage,
    question,
    problemsOf: (answers) => reachProblems(vantage.label, question, answers, wanted),
  };
}

/** Asks, and no attempt may be answered. */
export function silent(vantage: Vantage, question: Question): Probe {
  return {
    vantage,
    question,
    problemsOf: (answers) => silenceProblems(vantage.label, question, answers),
  };
}

/** `10.96.0.7:80/TCP`. */
function targetText({ address, port, protocol }: Question): string {
  return `${hostPort(address, port)}/${protocol}`;
}

/** Each attempt has to reach one of these. `from`: a Vantage's label. */
export function reachProblems(
  from: string,
  question: Question,
  { answers, errors }: Answers,
  wanted: readonly Backend[],
): readonly string[] {
  const names = new Set(wanted.map(({ name }) => name));
  const strangers = answers.map(({ name }) => name).filter((name) => !names.has(name));
  const target = `from ${from} to ${targetText(question)}`;
  return [
    ...countedTexts(errors).map((error) => `${target}: ${error}`),
    ...countedTexts(strangers).map((name) => `${target}: answered by ${name}`),
  ];
}

/** No attempt may be answered. */
export function silenceProblems(
  from: string,
  question: Question,
  { answers }: Answers,
): readonly string[] {
  const names = countedTexts(answers.map(({ name }) => name));
  return names.map((name) => `from ${from} to ${targetText(question)}: answered by ${name}`);
}

/** `timeout (3 times)`. */
function countedTexts(texts: readonly string[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].map(([text, count]) => (count === 1 ? text : `${text} (${count} times)`));
}
