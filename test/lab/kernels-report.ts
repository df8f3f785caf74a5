/** Formats docs/reports/kernels.md, the report of which suites pass on which kernel and iptables backend. Pure. */

/**
 * The iptables backend. "nftables": rules and sets are written with nf_tables. "none": the same on a kernel without
 * iptables and ipset.
 */
export type Backend = "legacy" | "nft" | "nftables" | "none";

/** One suite's result on one kernel with one backend. */
export interface Measured {
  /** The release in the format of `uname -r`. */
  readonly release: string;
  readonly backend: Backend;
  readonly suite: string;
  readonly passed: number;
  readonly failed: number;
  /** Names of the failed cases. */
  readonly red: readonly string[];
  /** Reasons for failures in the suite's output. */
  readonly why?: readonly string[];
  /** Numbers for the report. */
  readonly notes?: readonly string[];
}

/** The only suite that runs on kernels as a distribution ships them. */
export const stockSuite = "stock/node";

/** Cases that fail for reasons outside this project, with the reasons. */
export const knownDeviations: ReadonlyMap<string, string> = new Map();

/** The subjects of the suite that needs both backends, with their cases. */
const tried: readonly (readonly [what: string, cases: string])[] = [
  [
    "one native nft rule in `ip nat` or `ip filter`: it is logged once, a later Service is served, bound and in its set, and /healthz, /livez and /readyz return 200",
    '"with one native rule in ip …", "do not prevent a new Service from being served", "survive a restart and a clean-up"',
  ],
  [
    "the backend changes between two runs, because kubelet's chain KUBE-IPTABLES-HINT moved: startup and `--cleanup` remove kube-ipvs' rules from the other backend, and third-party rules remain",
    '"a node that moves from legacy to nft", "… from nft to legacy"',
  ],
  ["5,000 third-party rules and one more each second: CPU share", '"uses little CPU time"'],
  [
    "the table of kube-proxy's nftables mode is removed, and other tables remain",
    '"nftables mode: its table is removed …"',
  ],
  [
    "rules of kube-proxy's iptables mode, in either backend, are logged and removed by `--cleanup`",
    '"iptables mode: reported in …"',
  ],
];

/** Replaces earlier results with new results of the same suite, kernel and backend. */
export function mergeMeasured(
  earlier: readonly Measured[],
  now: readonly Measured[],
): readonly Measured[] {
  const byKey = [...earlier, ...now].map((one): [string, Measured] => [
    `${one.release} ${one.backend} ${one.suite}`,
    one,
  ]);
  return [...new Map(byKey).values()];
}

/** Names the suites that have never been run with a backend although they should be. */
function missingLines(
  measured: readonly Measured[],
  suitesOf: Readonly<Record<Backend, readonly string[]>>,
): readonly string[] {
  const runs = Map.groupBy(measured, ({ release, backend }) => `${release}, ${backend}`);
  return [...runs].flatMap(([key, ran]) => {
    const isStock = ran[0]?.suite === stockSuite;
    const suites = ran[0] === undefined || isStock ? [] : suitesOf[ran[0].backend];
    const missing = suites.filter((name) => !ran.some(({ suite }) => suite === name));
    return missing.length === 0 ? [] : [`Not run yet on ${key}: ${missing.join(", ")}.`, ""];
  });
}

/** Formats the report. Suites are in the order of `suitesOf`, with nft first. */
export function renderReport(
  measured: readonly Measured[],
  suitesOf: Readonly<Record<Backend, readonly string[]>>,
): string {
  const suites = [...new Set(Object.values(suitesOf).flat())];
  const sorted = measured.toSorted(
    (one, other) =>
      one.release.localeCompare(other.release) ||
      other.backend.localeCompare(one.backend) ||
      suites.indexOf(one.suite) - suites.indexOf(other.suite),
  );
  const runs = Map.groupBy(sorted, ({ release, backend }) => `${release} | ${backend}`);
  const rows = [...runs].map(([key, ran]) => {
    const sum = (name: "passed" | "failed"): number => ran.reduce((all, one) => all + one[name], 0);
    return `| ${key} | ${ran.length} | ${sum("passed")} | ${sum("failed")} |`;
  });
  const red = sorted.flatMap(({ release, backend, suite, red: names, why = [] }) =>
    names.map((name) => {
      const reason = knownDeviations.get(name) ?? ["bug", ...why].join(": ");
      return `- ${release}, ${backend}, ${suite}, \`${name}\`: ${reason}`;
    }),
  );
  const notes = sorted.flatMap(({ release, backend, suite, notes: lines = [] }) =>
    lines
      .filter((line) => !/ (\d+) of \1 match$/.test(line))
      .map((line) => `- ${release}, ${backend}, ${suite}: ${line.replace(`${suite}: `, "")}`),
  );
  return [
    "# Kernels and iptables backends",
    "",
    "`make test-kernels` writes this page. It runs suites of `test/lab` with each iptables backend, on user-mode Linux that",
    "`make lab-kernel` builds from Debian's kernel source. With `BACKEND=nftables` and `BACKEND=none`, kube-ipvs writes rules",
    "and sets with nf_tables. With `none`, the kernel has neither iptables nor ipset. The suite `kernels/backends` has",
    "rules in both backends simultaneously. `make nightly` runs all suites on Linux 6.12 with legacy iptables.",
    "",
    "| kernel | backend | suites | passed | failed |",
    "|---|---|---:|---:|---:|",
    ...rows,
    "",
    "[Every suite](data/kernels.json)",
    "",
    "Kernels whose names end in `-amd64` or `-arm64` are Debian's own. `make test-stock` boots them in QEMU. Their suite,",
    "`test/lab/stock/node.test.ts`, loads modules as a node does, and sends packets to all types of",
    "Service. It also covers drains, SIGKILL, `plan`, `explain`, `doctor` and `--cleanup`. With `none`, the modules and programs",
    "that Enterprise Linux 10 does not ship are removed.",
    "",
    ...missingLines(sorted, suitesOf),
    red.length === 0 ? "No case failed." : ["Failed cases:", "", ...red].join("\n"),
    "",
    "Cases of `kernels/backends`:",
    "",
    "| what | cases |",
    "|---|---|",
    ...tried.map(([what, cases]) => `| ${what} | ${cases} |`),
    ...(notes.length === 0 ? [] : ["", "Suite measurements:", "", ...notes]),
    "",
  ].join("\n");
}
