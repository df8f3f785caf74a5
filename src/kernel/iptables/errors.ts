import type { IpFamily } from "../../base/ip.ts";
import type { TableName } from "../../state/rule.ts";
import type { ProgramResult } from "../program.ts";

export interface IptablesRun {
  /** An action such as "read rules" or "write rules" that completes the sentence "Cannot …". */
  readonly action: string;
  readonly family: IpFamily;
  readonly program: string;
  /** The input of iptables-restore; line numbers in error messages refer to it. */
  readonly input?: string;
}

export class IptablesError extends Error {
  /**
   * Shows that the program ran and failed. `reconcile/apply/refusal-reason.ts` uses it to tell a rejection from a lost
   * reply.
   */
  readonly exitCode: number;
  /** The table that was not changed, if known. Tables before it in the input were changed. */
  readonly table?: TableName;
  /** True if another program held the lock or changed rules at the same time, so a retry may succeed. */
  readonly isBusy: boolean;

  constructor(run: IptablesRun, result: ProgramResult) {
    const place = findPlace(run.input, result.errorOutput);
    const programMessage = shorten(result.errorOutput);
    super(composeMessage(run, result.exitCode, programMessage, place?.lineText));
    this.name = "IptablesError";
    this.exitCode = result.exitCode;
    this.isBusy = result.exitCode === exitCodes.resourceProblem && busyWords.test(programMessage);
    if (place?.table !== undefined) this.table = place.table;
  }
}

/** True if another program held the xtables lock or changed rules at the same time, so a retry may succeed. */
export function isIptablesBusy(error: unknown): boolean {
  return error instanceof IptablesError && error.isBusy;
}

/**
 * The first alternative is the legacy program's message when it could not take the lock in time. The second is the nft
 * program's message when the kernel aborted the transaction.
 */
const busyWords = /xtables lock|Resource temporarily unavailable/;

/**
 * enum xtables_exittype, xtables.h. resourceProblem means that another program holds the lock or, with nft, that the
 * kernel rejected a change.
 */
const exitCodes = { parameterProblem: 2, versionProblem: 3, resourceProblem: 4 } as const;

/** Matches, for example, `Warning: Extension ipvs revision 0 not supported, missing kernel module?`. */
const missingExtension = /Extension (\w+) revision \d+ not supported/g;
/** ENOENT: nft_compat did not find a match or target of this name, or nft_compat itself is missing. */
const missingExpression = /RULE_\w+ failed \(No such file or directory\)/;

const explanations: ReadonlyMap<number, string> = new Map([
  [exitCodes.parameterProblem, "a set, chain, match or target is missing or not supported"],
  [
    exitCodes.versionProblem,
    "the iptables program does not support the version of the kernel's tables",
  ],
  [exitCodes.resourceProblem, "the kernel rejected the change"],
]);

/** Explains the combination of exit code and error message. */
function explain(exitCode: number, programMessage: string): string | undefined {
  if (exitCode === exitCodes.resourceProblem && busyWords.test(programMessage)) {
    return "another program holds the xtables lock, or changed rules at the same time";
  }
  const names = [...programMessage.matchAll(missingExtension)].map(([, name]) => `xt_${name}`);
  if (names.length === 0 && !missingExpression.test(programMessage)) {
    return explanations.get(exitCode);
  }
  const modules = names.length === 0 ? "a match or target (xt_…)" : [...new Set(names)].join(", ");
  return `the kernel lacks ${modules}, or nft_compat if iptables uses nftables; load the modules with modprobe, or use a kernel that has them`;
}

function composeMessage(
  run: IptablesRun,
  exitCode: number,
  programMessage: string,
  lineText: string | undefined,
): string {
  const explanation = explain(exitCode, programMessage);
  return [
    `Cannot ${run.action} (${run.family}): ${run.program} exited with code ${exitCode}`,
    explanation === undefined ? "" : `: ${explanation}`,
    programMessage === "" ? "" : ` (${programMessage})`,
    lineText === undefined ? "" : `; at: ${lineText.slice(0, 200)}`,
  ].join("");
}

/** Removes line breaks and the hint to read the manual. */
function shorten(errorOutput: string): string {
  const lines = errorOutput
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("Try `"));
  return lines.join("; ").slice(0, 300);
}

interface Place {
  readonly lineText: string;
  readonly table: TableName | undefined;
}

/**
 * Finds the line at which restore failed. The messages are "line 7 failed" (legacy; the line is COMMIT if the kernel
 * rejected the table), "Error occurred at line: 7" (legacy) and "line 7: RULE_APPEND failed" (nft).
 */
function findPlace(input: string | undefined, errorOutput: string): Place | undefined {
  const found = /\bline:? (\d+)/.exec(errorOutput);
  if (input === undefined || found === null) return undefined;
  const lines = input.split("\n");
  const index = Number(found[1]) - 1;
  const lineText = lines[index];
  if (lineText === undefined) return undefined;
  const table = lines.slice(0, index + 1).findLast((line) => line.startsWith("*"));
  return { lineText, table: table?.slice(1) as TableName | undefined };
}
