import type { IpFamily } from "../../base/ip.ts";
import type { TableName } from "../../state/rule.ts";
import type { ProgramResult } from "../program.ts";

/** What a run of an iptables program was for. */
export interface IptablesRun {
  /** "read rules", "write rules": completes the sentence "Cannot …". */
  readonly action: string;
  readonly family: IpFamily;
  readonly program: string;
  /** What was given to iptables-restore; line numbers in its messages refer to it. */
  readonly input?: string;
}

/** A run of an iptables program that ended with a failure. */
export class IptablesError extends Error {
  /** Shows whoever applies changes that the program ran and said no: `reconcile/apply/refusal-reason.ts`. */
  readonly exitCode: number;
  /** The table that was not changed, where that is known; tables before it were. */
  readonly table?: TableName;
  /** Another program held the lock, or changed rules at the same time: worth a retry. */
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

/** Someone else holds the xtables lock, or changed the rules at the same time: worth a retry. */
export function isIptablesBusy(error: unknown): boolean {
  return error instanceof IptablesError && error.isBusy;
}

/** Of legacy, which waits for its lock in vain; of nft, whose transaction the kernel sent back. */
const busyWords = /xtables lock|Resource temporarily unavailable/;

/** enum xtables_exittype, xtables.h; the last one is the lock, or with nft anything that the kernel rejects. */
const exitCodes = { parameterProblem: 2, versionProblem: 3, resourceProblem: 4 } as const;

/** `Warning: Extension ipvs revision 0 not supported, missing kernel module?` */
const missingExtension = /Extension (\w+) revision \d+ not supported/g;
/** ENOENT: nft_compat found no match or target of this name, or is missing itself. */
const missingExpression = /RULE_\w+ failed \(No such file or directory\)/;

const explanations: ReadonlyMap<number, string> = new Map([
  [exitCodes.parameterProblem, "a set, chain, match or target is missing or not supported"],
  [exitCodes.versionProblem, "the program and the kernel's tables are of different versions"],
  [exitCodes.resourceProblem, "the kernel rejected the change"],
]);

/** What the exit code and the program's message say together. */
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
    `Cannot ${run.action} (${run.family}): ${run.program} ended with exit code ${exitCode}`,
    explanation === undefined ? "" : `: ${explanation}`,
    programMessage === "" ? "" : ` (${programMessage})`,
    lineText === undefined ? "" : `; at: ${lineText.slice(0, 200)}`,
  ].join("");
}

/** The hint to read the manual says nothing; neither do line ends. */
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
 * The line that restore stopped at. It says "line 7 failed" (legacy; the COMMIT when the kernel refused),
 * "Error occurred at line: 7" (legacy) or "line 7: RULE_APPEND failed" (nft).
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
