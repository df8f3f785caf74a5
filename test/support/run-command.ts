/** Runs a command line in this process. Parts of the program fail unless a test replaces them. */
import type { ProcessContext } from "../../src/cli/command.ts";
import { type Programs, programs } from "../../src/cli/programs.ts";
import { runCommandLine } from "../../src/cli/run-command-line.ts";
import { assertDescribed } from "./answer-schemas.ts";
import { FakeClock } from "./fake-clock.ts";

type Part<Name extends keyof Programs> = Awaited<ReturnType<Programs[Name]>>;

/** Replacements for parts of the program. */
export type Fakes = { readonly [Name in keyof Programs]?: Partial<Part<Name>> };

export interface CommandRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Parts of the program fail unless a test replaces them. Also fails if JSON output does not match its schema. */
export async function runCommand(
  args: readonly string[],
  fakes: Fakes = {},
  process: Partial<ProcessContext> = {},
): Promise<CommandRun> {
  let [out, err] = ["", ""];
  const names = Object.keys(programs) as (keyof Programs)[];
  const given = names.map((name) => [name, async () => fakes[name] ?? {}] as const);
  const code = await runCommandLine(args, {
    clock: new FakeClock(),
    pid: 1,
    hostname: () => "node-1",
    environment: {},
    hasColors: false,
    readFile: (path) => {
      throw new Error(`ENOENT: no such file or directory, open '${path}'`);
    },
    readInput: async () => "",
    writeFile: () => {},
    writeBytes: () => {},
    forbidCoreDumps: () => {},
    noteLoaded: () => {},
    programs: Object.fromEntries(given) as unknown as Programs,
    ...process,
    writeOut: (text) => {
      out += text;
      process.writeOut?.(text);
    },
    writeErr: (text) => {
      err += text;
    },
  });
  assertDescribed(args, out);
  return { code, out, err };
}
