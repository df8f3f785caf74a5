/** docs/reports/kernels.md: what passes on which kernel, with which backend of iptables. Pure. */

/** One suite with one backend. */
export interface Measured {
  readonly backend: "legacy" | "nft";
  readonly suite: string;
  readonly passed: number;
  readonly failed: number;
  /** Names of the cases that failed. */
  readonly red: readonly string[];
}

/** Cases that are red for a reason that is not ours, with the reason. */
export const knownDeviations: ReadonlyMap<string, string> = new Map();

export function renderReport(release: string, measured: readonly Measured[]): string {
  const rows = measured.map(
    ({ backend, suite, passed, failed }) =>
      `| ${release} | ${backend} | ${suite} | ${passed} | ${failed} |`,
  );
  const red = measured.flatMap(({ backend, suite, red: names }) =>
    names.map((name) => {
      const reason = knownDeviations.get(name) ?? "a fault";
      return `- ${backend}, ${suite}, \`${name}\`: ${reason}`;
    }),
  );
  return [
    "# Kernels and backends of iptables",
    "",
    "Written by `make test-kernels`: suites of `test/lab` on user-mode Linux from Debian's kernel source",
    "(`make lab-kernel`), with iptables on each of its backends. The suite `kernels/backends` has rules in both at",
    "once. `make test` runs all suites on Linux 6.1 with legacy iptables.",
    "",
    "| kernel | backend | suite | passed | failed |",
    "|---|---|---|---:|---:|",
    ...rows,
    "",
    red.length === 0 ? "No case is red." : ["Red cases:", "", ...red].join("\n"),
    "",
  ].join("\n");
}
