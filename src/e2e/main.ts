/**
 * kube-ipvs-e2e, a program of its own beside the daemon: the acceptance test of a cluster, and what its pods run. The
 * daemon's image holds both, so that a cluster needs no other image for the test.
 */
import { once } from "node:events";
import { writeSync } from "node:fs";
import { errorText } from "../base/error-text.ts";
import { parseJson } from "../base/parse-json.ts";
import type { Question } from "./pod/conversation.ts";

const notRun = 2;

function print(text: string): void {
  writeSync(1, text);
}

/** What the pods of the test run, by the first argument; each loads nothing of the others. */
const podCommands: Readonly<Record<string, (args: readonly string[]) => Promise<void>>> = {
  serve: async ([name = ""]) => {
    const { serve } = await import("./pod/serve.ts");
    await serve(name);
    print("Ready\n");
    await once(process, "SIGTERM");
  },
  ask: async ([questions = "[]"]) => {
    const { ask } = await import("./pod/ask.ts");
    print(`${JSON.stringify(await ask(parseJson(questions) as readonly Question[]))}\n`);
  },
  hold: async ([address = "", port = ""]) => {
    const { hold } = await import("./pod/hold.ts");
    const stopped = Promise.race([once(process.stdin, "data"), once(process.stdin, "end")]);
    await hold(address, Number(port), { print: (line) => print(`${line}\n`), stopped });
  },
  get: async (urls) => {
    const { fetchFirstPage } = await import("./pod/fetch-page.ts");
    print(await fetchFirstPage(urls));
  },
};

async function run(args: readonly string[]): Promise<number> {
  const [name = "", ...rest] = args;
  const podCommand = Object.hasOwn(podCommands, name) ? podCommands[name] : undefined;
  if (podCommand === undefined) {
    const { runCommandLine } = await import("./command-line.ts");
    return await runCommandLine(args, { print, environment: process.env });
  }
  await podCommand(rest);
  return 0;
}

// No await up here: the bundle is made of CommonJS modules, see toolchain/bundle.ts.
void run(process.argv.slice(2))
  .catch((error: unknown) => {
    process.stderr.write(`Error: ${errorText(error)}\n`);
    return notRun;
  })
  .then((code) => process.exit(code));
