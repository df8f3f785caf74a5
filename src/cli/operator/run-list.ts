/** `kube-ipvs services` and `kube-ipvs drains`. */
import { sleep } from "../../base/clock.ts";
import { parseJson } from "../../base/parse-json.ts";
import { yamlText } from "../../base/yaml.ts";
import type { DrainRow, ServiceRow, ServicesQuery } from "../../daemon/operator/answers.ts";
import { servicesTarget } from "../../daemon/operator/routes.ts";
import {
  answererOf,
  exitCodes,
  type Question,
  type QuestionWorld,
  type WithoutDaemon,
} from "./question.ts";
import { drainsTable, servicesTable, wideServicesTable } from "./service-tables.ts";

const watchPeriodMs = 2_000;

/**
 * Prints Services; where no daemon runs, what a start would find. Rejects where there is no answer, or no Service of the name
 * that was asked for.
 */
export async function runServices(
  question: Question,
  world: QuestionWorld,
  withoutDaemon: WithoutDaemon,
): Promise<number> {
  const query = servicesQuery(question);
  return await printList(question, world, withoutDaemon, {
    target: servicesTarget(query),
    render: (text) => servicesText(text, query, question, world),
  });
}

/** Prints what drains; where no daemon runs, what a start would find. Rejects where there is no answer. */
export async function runDrains(
  question: Question,
  world: QuestionWorld,
  withoutDaemon: WithoutDaemon,
): Promise<number> {
  return await printList(question, world, withoutDaemon, {
    target: "/v1/drains",
    render: (text) => drainsText(text, question, world),
  });
}

interface Listing {
  /** What the daemon is asked. */
  readonly target: string;
  readonly render: (text: string) => string;
}

/** Prints once; with --watch, again with each change until a signal ends the program. */
async function printList(
  question: Question,
  world: QuestionWorld,
  withoutDaemon: WithoutDaemon,
  { target, render }: Listing,
): Promise<number> {
  const answer = answererOf(question, world, withoutDaemon, "showing what a start would find");
  let text = await answer(target);
  world.writeOut(render(text));
  while (question.options.get("watch") === "true") {
    await sleep(world.clock, watchPeriodMs);
    const next = await answer(target);
    const isSame = withoutTimes(next) === withoutTimes(text);
    text = next;
    if (isSame) continue;
    const start = world.columns?.() === undefined ? "\n" : clearScreen;
    world.writeOut(`${start}${render(text)}`);
  }
  return exitCodes.ok;
}

/** The times of a drain change with every answer, even if nothing else does. */
function withoutTimes(answer: string): string {
  const isTime = (name: string): boolean => name === "ageSeconds" || name === "deadlineInSeconds";
  return JSON.stringify(parseJson(answer), (name, value) => (isTime(name) ? "" : value));
}

const clearScreen = "\u001b[H\u001b[2J\u001b[3J";

function servicesQuery({ options, arguments: [name] }: Question): ServicesQuery {
  const format = options.get("output") ?? "";
  const [given = "", path] = name?.split("/") ?? [];
  const namespace = path === undefined ? options.get("namespace") : given;
  const isAll = options.get("all-namespaces") === "true";
  const hasDetails = name !== undefined || format === "wide";
  return {
    ...(isAll || namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name: path ?? given }),
    hasEndpoints: format === "json" || format === "yaml",
    hasConnections: hasDetails && format !== "name",
  };
}

function servicesText(
  text: string,
  query: ServicesQuery,
  { options }: Question,
  { columns }: QuestionWorld,
): string {
  const format = options.get("output");
  const answer = parseJson(text) as { readonly items: readonly ServiceRow[] };
  const { items } = answer;
  // Who watches may wait for it to come.
  const mustBeThere = query.name !== undefined && options.get("watch") !== "true";
  if (items.length === 0 && mustBeThere) throw new Error(nothingText(query));
  if (format === "json") return text;
  if (format === "yaml") return yamlText(answer);
  if (format === "name") {
    return linesText([...new Set(items.map(({ namespace, name }) => `${namespace}/${name}`))]);
  }
  if (items.length === 0) return `${nothingText(query)}\n`;
  const table = query.hasConnections ? wideServicesTable : servicesTable;
  return linesText(table(items, columns?.()));
}

function nothingText({ namespace, name }: ServicesQuery): string {
  const what = name === undefined ? "No Services" : `No Service ${name}`;
  const where = namespace === undefined ? "" : ` in namespace ${namespace} (-A: all namespaces)`;
  return `${what}${where}`;
}

function drainsText(text: string, { options }: Question, { columns }: QuestionWorld): string {
  const format = options.get("output");
  if (format === "json") return text;
  const answer = parseJson(text) as { readonly items: readonly DrainRow[] };
  if (format === "yaml") return yamlText(answer);
  if (answer.items.length === 0) return "Nothing drains\n";
  return linesText(drainsTable(answer.items, columns?.()));
}

function linesText(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}
