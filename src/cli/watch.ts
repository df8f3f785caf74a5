/** Prints an answer and, with `--watch`, prints it again after each change. */
import { exitCodes } from "../answer/answer.ts";
import { sleep } from "../base/clock.ts";
import type { CommandContext } from "./command.ts";

const periodMs = 2_000;
const clearScreen = "\u001b[H\u001b[2J\u001b[3J";

/** With `--watch`, runs until the program is interrupted or the reader of its output ends. */
export async function printAndWatch<A>(
  { clock, columns, options, writeOut, isOutputClosed }: CommandContext,
  ask: () => Promise<A>,
  print: (answer: A) => void,
): Promise<number> {
  let shown = await ask();
  print(shown);
  while (options.get("watch") === "true" && isOutputClosed?.() !== true) {
    await sleep(clock, periodMs);
    const answer = await ask();
    const isSame = withoutTimes(answer) === withoutTimes(shown);
    shown = answer;
    if (isSame) continue;
    writeOut(columns?.() === undefined ? "\n" : clearScreen);
    print(answer);
  }
  return exitCodes.fine;
}

/** Fields that differ in every answer: ages, pauses and the summary of a status. */
const times =
  /^(?:(?:age|deadlineIn|since|retryIn|uptime|lastAnswer|failing)Seconds|durationMs|summary)$/;

function withoutTimes(answer: unknown): string {
  return JSON.stringify(answer, (name, value) => (times.test(name) ? "" : value));
}
