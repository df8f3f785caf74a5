/** Chains, sets and the link: the names that kube-proxy 1.36.2 left in a real kernel, and whether they are ours too. */
import { ipFamilies } from "../../src/base/ip.ts";
import { planRules } from "../../src/plan/rules.ts";
import { setsFor } from "../../src/plan/sets.ts";
import type { StateFile } from "../../test/golden/kernel-state.ts";
import { listScenarios, readScenario } from "../../test/golden/scenario.ts";
import type { CompatibilityRow, CompatibilitySection } from "./compatibility.ts";

/** Every line of a kind of file in the recorded states. */
function recordedLines(file: StateFile): readonly string[] {
  return listScenarios()
    .flatMap((name) => readScenario(name).steps)
    .flatMap(({ recorded }) => (recorded[file] ?? "").split("\n"));
}

/** `nat KUBE-SERVICES`. */
function recordedChains(): ReadonlySet<string> {
  let table = "";
  const names = new Set<string>();
  for (const line of recordedLines("iptables")) {
    if (line.startsWith("*")) table = line.slice(1);
    const [, chain] = /^:(KUBE-\S+)/.exec(line) ?? [];
    if (chain !== undefined) names.add(`${table} ${chain}`);
  }
  return names;
}

function recordedSets(): ReadonlySet<string> {
  const created = recordedLines("ipset").map((line) => /^create (KUBE-\S+)/.exec(line)?.[1]);
  return new Set(created.filter((name) => name !== undefined));
}

function ourChains(): ReadonlySet<string> {
  const empty = { filledSets: new Set<never>(), deniedToNode: [] };
  const { chains } = planRules({
    ...empty,
    family: "IPv4",
    localDetector: undefined,
    isMasqueradeAll: false,
    masqueradeMark: 0x4000,
  });
  return new Set(chains.map(({ table, name }) => `${table} ${name}`));
}

function rowsOf(
  recorded: ReadonlySet<string>,
  ours: ReadonlySet<string>,
): readonly CompatibilityRow[] {
  return [...recorded]
    .toSorted()
    .map((name) => (ours.has(name) ? { name } : { name, differs: "absent" }));
}

const ourSets: ReadonlySet<string> = new Set(
  ipFamilies.flatMap((family) => setsFor(family).map(({ name }) => name)),
);

/** Sections of the compatibility table. */
export const kernelObjects: readonly CompatibilitySection[] = [
  {
    title: "Chains",
    head: "Table and chain",
    text: "Names that kube-proxy 1.36.2 created in a real kernel. Their contents are compared in 98 recorded scenarios.",
    rows: rowsOf(recordedChains(), ourChains()),
  },
  { title: "Sets", head: "Set", rows: rowsOf(recordedSets(), ourSets) },
  { title: "Links", head: "Link", rows: [{ name: "kube-ipvs0" }] },
];
