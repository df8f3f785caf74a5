import { exitCodes } from "../../answer/answer.ts";
import { apiVersion, type Envelope, type Status } from "../../answer/answers.ts";
import { facts, type View } from "../../answer/render.ts";
import { errorText } from "../../base/error-text.ts";
import { kubernetesVersion, version } from "../../base/version.ts";
import { type Command, type CommandContext, outputOptions } from "../command.ts";

export interface VersionAnswer extends Envelope<"Version"> {
  readonly program: string;
  readonly kubernetes: string;
  readonly nodeJs: string;
  /** The version of this node's running daemon. Undefined if the daemon does not answer. */
  readonly daemon?: Status["versions"];
  /** Why the daemon's version is unknown. */
  readonly daemonError?: string;
}

export const versionCommand: Command = {
  name: "version",
  summary: "print this program's version and the running daemon's",
  description:
    "Prints this program's version and, from the daemon's operator socket, the daemon's.\n" +
    "Exit codes: 0 success; 1 error; 2 the daemon has a different version.",
  options: outputOptions(),
  needsNoMode: true,
  examples: [{ command: "kube-ipvs version -o json", purpose: "for scripts" }],
  run: async (context) => {
    const answer: VersionAnswer = {
      ...{ apiVersion, kind: "Version", program: version, kubernetes: kubernetesVersion },
      nodeJs: process.versions.node,
      ...(await daemonOf(context)),
    };
    context.print(answer, versionView);
    const isSame = answer.daemon === undefined || answer.daemon.program === version;
    return isSame ? exitCodes.fine : exitCodes.wrong;
  },
};

async function daemonOf({
  source,
}: CommandContext): Promise<Pick<VersionAnswer, "daemon" | "daemonError">> {
  try {
    const asked = await source.askDaemon({ kind: "Status", target: "/v1/status" });
    return asked.kind === "answer"
      ? { daemon: asked.answer.versions }
      : { daemonError: asked.reason };
  } catch (error) {
    // A daemon with a different version may answer in a different format.
    return { daemonError: errorText(error) };
  }
}

const versionView: View<VersionAnswer> = {
  blocks: ({ program, kubernetes, nodeJs, daemon, daemonError }) => [
    facts([
      ["Program", `kube-ipvs ${program} for Kubernetes ${kubernetes}, Node.js ${nodeJs}`],
      [
        "Daemon",
        daemon === undefined
          ? `does not answer: ${daemonError}`
          : `kube-ipvs ${daemon.program}, Node.js ${daemon.nodeJs}, Linux ${daemon.kernel}`,
      ],
    ]),
  ],
};
