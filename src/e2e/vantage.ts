import { setImmediate } from "node:timers/promises";
import { parseJson } from "../base/parse-json.ts";
import { type ExecShell, outputOf, type PodPlace } from "./cluster/exec-shell.ts";
import { program } from "./objects.ts";
import type { Answers, Question } from "./pod/conversation.ts";

/** A place from which connections are made. All questions asked in the same event loop turn share one command. */
export class Vantage {
  /** For example: `a pod on node-1`. */
  readonly label: string;
  readonly #shell: Pick<ExecShell, "run">;
  readonly #place: () => Promise<PodPlace>;
  #questions: Question[] = [];
  #asking: Promise<readonly Answers[]> | undefined;

  constructor(label: string, shell: Pick<ExecShell, "run">, place: () => Promise<PodPlace>) {
    this.label = label;
    this.#shell = shell;
    this.#place = place;
  }

  async ask(question: Question): Promise<Answers> {
    const index = this.#questions.push(question) - 1;
    this.#asking ??= this.#askAll();
    const answers = (await this.#asking)[index];
    if (answers === undefined) throw new Error(`${this.label} gave no answer`);
    return answers;
  }

  async #askAll(): Promise<readonly Answers[]> {
    await setImmediate();
    const questions = this.#questions;
    this.#questions = [];
    this.#asking = undefined;
    const command = [program, "ask", JSON.stringify(questions)];
    const result = await this.#shell.run(await this.#place(), command);
    return parseJson(outputOf(result, this.label)) as readonly Answers[];
  }
}
