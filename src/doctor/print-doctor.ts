/** `kube-ipvs doctor`: reads the node, judges, prints. Changes nothing. */
import type { Clock } from "../base/clock.ts";
import type { Config } from "../config/config.ts";
import { type Verdict, worstVerdict } from "./check.ts";
import { examine } from "./examine.ts";
import { openNode } from "./open-node.ts";
import { renderExamination } from "./render.ts";

export interface DoctorOptions {
  readonly format: string | undefined;
  readonly isBeforeInstall: boolean;
  /** Standard output is a terminal. */
  readonly hasColor: boolean;
}

export interface DoctorParts {
  readonly clock: Clock;
  /** Prints a line on stdout. */
  readonly print: (line: string) => void;
}

/** Resolves with the worst verdict. */
export async function printDoctor(
  config: Config,
  { clock, print }: DoctorParts,
  { format, isBeforeInstall, hasColor }: DoctorOptions,
): Promise<Verdict> {
  const node = openNode(config, isBeforeInstall, clock, process.env);
  try {
    const examination = await examine(node);
    print(renderExamination(examination, format, hasColor).trimEnd());
    return worstVerdict(examination.findings);
  } finally {
    node.close();
  }
}
