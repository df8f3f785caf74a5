/**
 * The entry point of kube-ipvs-e2e, which runs the cluster acceptance test and the commands of the test's pods. The
 * daemon's image contains this program, so the test does not need another image.
 */
import { errorText } from "../base/error-text.ts";

/** A module with a command, which resolves with the exit code. Undefined means 0. */
interface Command {
  readonly run: (args: readonly string[]) => Promise<number | undefined>;
}

/** The test pods' commands, by their first argument. Each command loads only its own module. */
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

// The bundle consists of CommonJS modules (toolchain/bundle.ts), so there is no top-level await.
void main(process.argv.slice(2))
  .catch((error: unknown) => {
    process.stderr.write(`Error: ${errorText(error)}\n`);
    return notRun;
  })
  .then((code) => process.exit(code));
