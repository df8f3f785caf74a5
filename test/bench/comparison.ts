/** Comparisons across cases: one changed endpoint with few and with many Services. */
import type { CaseResult, Growth, Row } from "./rows.ts";

const comparedWith = 5_000;
/** The cost may be at most 50% higher. A lower cost is never a failure. */
const mostTimes = 1.5;

/** Returns the comparison as a result. Empty until two sizes have been measured. */
export function comparison(results: readonly CaseResult[]): readonly CaseResult[] {
  const growth = results.flatMap((result) =>
    result.growth.filter(({ subject }) => subject === "kube-ipvs"),
  );
  const base = growth.find(({ services }) => services === comparedWith);
  if (base === undefined || growth.length < 2) return [];
  const sources = results.filter((result) => result.growth.length > 0);
  return [
    {
      name: "change",
      title: "One changed endpoint, with few and with many Services present",
      version: sources[0]?.version ?? "",
      startedAt: sources[0]?.startedAt ?? "",
      elapsedSeconds: sources.reduce((total, { elapsedSeconds }) => total + elapsedSeconds, 0),
      load: sources.flatMap(({ load }) => load),
      rows: growth.filter((one) => one !== base).map((one) => rowOf(one, base)),
      growth: [],
    },
  ];
}

function rowOf({ services, changeCpuMs }: Growth, base: Growth): Row {
  const isTarget = services === 1_000 || services === 50_000;
  return {
    subject: "kube-ipvs",
    what: `CPU per change with ${services.toLocaleString("en")} Services, divided by that with ${base.services.toLocaleString("en")}`,
    kind: "figure",
    unit: "×",
    value: changeCpuMs / base.changeCpuMs,
    ...(isTarget ? { target: { text: "± 50%", most: mostTimes } } : {}),
  };
}
