/**
 * kube-ipvs-e2e, a program of its own beside the daemon: the acceptance test of a cluster, and what its pods run. The
 * daemon's image holds both, so that a cluster needs no other image for the test.
 */
import { errorText } from "../base/error-text.ts";

/** A module with a command. It resolves with the exit code; undefined: 0. */
interface Command {
  readonly run: (args: readonly string[]) => Promise<number | undefined>;
}

/** What the pods of the test run, by the first argument; each loads nothing of the others. */
const podCommands: Readonly<Record<string, () => Promise<Command>>> = {
  serve: () => import("./pod/serve.ts"),
  ask: () => import("./pod/ask.ts"),
  hold: () => import("./pod/hold.ts"),
  get: () => import("./pod/get.ts"),
};

const notRun = 2;

async function main(args: readonly string[]): Promise<number | undefined> {
  const [name = "", ...rest] = args;
  const load = Object.hasOwn(podCommands, name) ? podCommands[name] : undefined;
  if (load !== undefined) return await (await load()).run(rest);
  const commandLine = await import("./command-line.ts");
  return await commandLine.run(args);
}

// No await up here: the bundle is made of CommonJS modules, see toolchain/bundle.ts.
void main(process.argv.slice(2))
  .catch((error: unknown) => {
    process.stderr.write(`Error: ${errorText(error)}\n`);
    return notRun;
  })
  .then((code) => process.exit(code));
