/**
 * Chooses the iptables backend. Rules of both backends apply at the same time, and each backend's programs hide the
 * other's rules, so a node should use only one. The checks run in the same order as in Kubernetes' image wrapper
 * scripts, so that kube-ipvs chooses the same backend as kubelet and the network plugin.
 */
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import { orElse } from "../../base/or-else.ts";
import type { BackendFinding, IptablesBackend } from "../kernel.ts";
import { isProgramMissing, ProgramError, type RunProgram, readLines } from "../program.ts";
import { IptablesError } from "./errors.ts";

export type { IptablesBackend };

export interface BackendChoice extends BackendFinding {
  readonly backend: IptablesBackend;
  /** Program names without `-save` and `-restore`. */
  readonly programs: Readonly<Record<IpFamily, string>>;
  /** The other backend, if it contains any chains or rules. */
  readonly unused?: BackendChoice;
}

/** What the programs of one backend report. */
export interface BackendSurvey {
  /** False if the programs are not installed. */
  readonly isInstalled: boolean;
  /** True if kubelet has created one of its marker chains in this backend. */
  readonly hasKubeletChain: boolean;
  /** Number of rules in all tables of both families. A table that cannot be printed counts as one rule. */
  readonly ruleCount: number;
  /** True if there is any user-defined chain. */
  readonly hasChains: boolean;
  /** See {@link BackendFinding.leftovers}. */
  readonly leftovers?: ReadonlyMap<IpFamily, readonly string[]>;
  readonly hasPortals?: boolean;
  /** Why some of the rules could not be read. They are not counted. */
  readonly failure?: Error;
}

export interface BackendSurveys {
  readonly legacy: BackendSurvey;
  readonly nft: BackendSurvey;
  /** The backend reported by `iptables --version`; undefined if that program is not installed. */
  readonly standard: IptablesBackend | undefined;
}

const surveyTimeoutMs = 30_000;

/** Checks both backends and chooses one. Read-only. Rejects if iptables is not installed. */
export async function chooseBackend(runProgram: RunProgram): Promise<BackendChoice> {
  return pickBackend(await surveyBackends(runProgram));
}

/** Returns the program names of a backend that was chosen earlier. This starts one process and reads no rules. */
export async function programsOf(
  runProgram: RunProgram,
  backend: IptablesBackend,
): Promise<BackendChoice["programs"]> {
  const program = `${namedPrograms[backend].IPv4}-save`;
  const isInstalled = await runProgram({ program, arguments: ["-V"], timeoutMs: surveyTimeoutMs })
    .then(() => true)
    .catch(() => false);
  return isInstalled ? namedPrograms[backend] : plainPrograms;
}

/** Reports on both backends. Read-only. */
export async function surveyBackends(runProgram: RunProgram): Promise<BackendSurveys> {
  return {
    nft: await survey(runProgram, "nft"),
    legacy: await survey(runProgram, "legacy"),
    standard: await readStandard(runProgram),
  };
}

/** Chooses the backend. Pure. */
export function pickBackend(surveys: BackendSurveys): BackendChoice {
  const { backend, reason } = pick(surveys);
  const programs = surveys[backend].isInstalled ? namedPrograms[backend] : plainPrograms;
  const other: IptablesBackend = backend === "legacy" ? "nft" : "legacy";
  const unused = unusedChoice(other, surveys[other]);
  const choice = {
    ...{ backend, programs, reason, ...leftoversOf(surveys[backend]) },
    ...(unused === undefined ? {} : { unused }),
  };
  if (surveys.legacy.ruleCount === 0 || surveys.nft.ruleCount === 0) return choice;
  const warning =
    `Both iptables backends have rules (${backend} ${surveys[backend].ruleCount}, ` +
    `${other} ${surveys[other].ruleCount}): using ${backend}, but rules in ${other} also apply`;
  return { ...choice, warning };
}

function unusedChoice(backend: IptablesBackend, survey: BackendSurvey): BackendChoice | undefined {
  const { isInstalled, ruleCount, hasChains } = survey;
  if (!isInstalled || (ruleCount === 0 && !hasChains)) return undefined;
  const programs = namedPrograms[backend];
  return { backend, programs, reason: "it is not in use", ...leftoversOf(survey) };
}

function leftoversOf({
  leftovers,
  hasPortals,
}: BackendSurvey): Pick<BackendChoice, "leftovers" | "hasPortals"> {
  return {
    ...(leftovers === undefined || leftovers.size === 0 ? {} : { leftovers }),
    ...(hasPortals === true ? { hasPortals } : {}),
  };
}

function pick(surveys: BackendSurveys): { backend: IptablesBackend; reason: string } {
  const { legacy, nft, standard } = surveys;
  if (nft.hasKubeletChain) return { backend: "nft", reason: "kubelet's chain exists" };
  if (legacy.hasKubeletChain) return { backend: "legacy", reason: "kubelet's chain exists" };
  if (legacy.ruleCount !== nft.ruleCount) {
    const backend = legacy.ruleCount > nft.ruleCount ? "legacy" : "nft";
    return { backend, reason: "it has more rules" };
  }
  if (standard !== undefined) return { backend: standard, reason: "the default of this system" };
  if (nft.isInstalled) return { backend: "nft", reason: "only its programs are installed" };
  if (legacy.isInstalled) return { backend: "legacy", reason: "only its programs are installed" };
  throw new ProgramError(
    "iptables",
    "not-found",
    "none of iptables, iptables-nft and iptables-legacy is in PATH; install the iptables package",
  );
}

const namedPrograms: Readonly<Record<IptablesBackend, Readonly<Record<IpFamily, string>>>> = {
  legacy: { IPv4: "iptables-legacy", IPv6: "ip6tables-legacy" },
  nft: { IPv4: "iptables-nft", IPv6: "ip6tables-nft" },
};

const plainPrograms: Readonly<Record<IpFamily, string>> = { IPv4: "iptables", IPv6: "ip6tables" };

/**
 * Chains of the nat, filter and mangle tables that only iptables mode creates. Chains that kubelet or IPVS mode also
 * creates are not included.
 */
const iptablesModeChain: Readonly<Record<string, RegExp>> = {
  nat: /^KUBE-(?:(?:SVC|SEP|SVL|EXT|FW|XLB)-[A-Z2-7]{16}|NODEPORTS|PROXY-CANARY)$/,
  filter: /^KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-CANARY)$/,
  mangle: /^KUBE-PROXY-CANARY$/,
};

/**
 * Whether only iptables mode creates this chain. 16 base32 characters identify a Service or an endpoint. Before
 * Kubernetes 1.24, chain names contained XLB instead of EXT.
 */
export function isOfIptablesMode(table: string, chain: string): boolean {
  return iptablesModeChain[table]?.test(chain) === true;
}

/** Finds iptables mode's chains in `iptables-save` output, such as `nat KUBE-SEP-…`. */
export function findLeftoverChains(saved: string): readonly string[] {
  const found: string[] = [];
  let table = "";
  for (const [, opened, chain = ""] of saved.matchAll(/^(?:\*(\S+)|:(KUBE-\S+) )/gm)) {
    if (opened !== undefined) table = opened;
    else if (isOfIptablesMode(table, chain)) found.push(`${table} ${chain}`);
  }
  return found;
}

/** Chains of userspace mode in the nat and filter tables. An interrupted removal may have left only one of them. */
const portalChain = /^:KUBE-(?:(?:PORTALS|NODEPORT)-(?:CONTAINER|HOST)|NODEPORT-NON-LOCAL) /m;

/** Runs `save` without a table name, so that it loads no module and creates no table. */
async function survey(runProgram: RunProgram, backend: IptablesBackend): Promise<BackendSurvey> {
  let isInstalled = false;
  let hasKubeletChain = false;
  let ruleCount = 0;
  let hasChains = false;
  let hasPortals = false;
  let failure: Error | undefined;
  const leftovers = new Map<IpFamily, readonly string[]>();
  for (const family of ipFamilies) {
    const saved = await saveOrRetry(runProgram, backend, family);
    if (saved === undefined) continue;
    const { output } = saved;
    isInstalled = true;
    failure ??= saved.failure;
    hasKubeletChain ||= /^:KUBE-(?:IPTABLES-HINT|KUBELET-CANARY) /m.test(output);
    hasChains ||= /^:\S+ - /m.test(output);
    hasPortals ||= portalChain.test(output);
    ruleCount += saved.ruleCount;
    const chains = findLeftoverChains(output);
    if (chains.length > 0) leftovers.set(family, chains);
  }
  const found = { isInstalled, hasKubeletChain, ruleCount, hasChains, leftovers, hasPortals };
  return failure === undefined ? found : { ...found, failure };
}

/** The tables and chains of a backend, and its number of rules. */
interface SavedChains {
  readonly output: string;
  readonly ruleCount: number;
  readonly failure?: Error;
}

/** Runs a program again if it fails. It always fails if the kernel lacks the backend. */
async function saveOrRetry(
  runProgram: RunProgram,
  backend: IptablesBackend,
  family: IpFamily,
): Promise<SavedChains | undefined> {
  const saved = await save(runProgram, backend, family);
  return saved?.failure === undefined ? saved : save(runProgram, backend, family);
}

/** Undefined if the program is not installed. If it fails, contains what it printed before. */
async function save(
  runProgram: RunProgram,
  backend: IptablesBackend,
  family: IpFamily,
): Promise<SavedChains | undefined> {
  const program = `${namedPrograms[backend][family]}-save`;
  const call = { program, arguments: [], timeoutMs: surveyTimeoutMs };
  const chains: string[] = [];
  let ruleCount = 0;
  const printed = readLines(runProgram, call, (line) => {
    if (/^(?:-A |# Table `\w+' is incompatible)/.test(line)) ruleCount += 1;
    else chains.push(line);
  });
  const result = await orElse(printed, isProgramMissing, undefined);
  if (result === undefined) return undefined;
  const saved = { output: chains.join("\n"), ruleCount };
  if (result.exitCode === 0) return saved;
  const run = { action: "read iptables rules", family, program };
  return { ...saved, failure: new IptablesError(run, result) };
}

/** Parses, for example, `iptables v1.8.9 (nf_tables)`. Versions before 1.8 print no backend and are legacy. */
async function readStandard(runProgram: RunProgram): Promise<IptablesBackend | undefined> {
  const printed = runProgram({
    program: "iptables",
    arguments: ["--version"],
    timeoutMs: surveyTimeoutMs,
  });
  const result = await orElse(printed, isProgramMissing, undefined);
  if (result?.exitCode !== 0) return undefined;
  return result.output.includes("nf_tables") ? "nft" : "legacy";
}
