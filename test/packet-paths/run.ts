/** Runs every section in one set of namespaces. Needs its own kernel with IPVS (test/lab). */
import { affinity, walkAffinity } from "./affinity.ts";
import { type Explainer, readPlan, withExplainer } from "./explained.ts";
import type { Section, SectionResult } from "./path.ts";
import { startProxy } from "./proxy.ts";
import { variants, withDefaults } from "./sections.ts";
import { startStations } from "./start-stations.ts";
import { type Stations, walk } from "./walk.ts";
import { walkWithoutParts, withoutParts } from "./without.ts";

/** Results in the order of the document. */
export async function runPacketPaths(): Promise<readonly SectionResult[]> {
  const { stations, stop } = await startStations();
  try {
    const results = await runWith({}, (explainer) => walkDefaults(stations, explainer));
    for (const sections of byConfiguration(variants)) {
      results.push(
        ...(await runWith(sections[0]?.configuration, (explainer) =>
          walkAll(sections, stations, explainer),
        )),
      );
    }
    const rows = await walkWithoutParts(stations);
    results.push({ section: withoutParts, rows });
    return results;
  } finally {
    await stop();
  }
}

async function runWith<T>(
  configuration: Section["configuration"],
  body: (explainer: Explainer) => Promise<T>,
): Promise<T> {
  const proxy = await startProxy(configuration);
  try {
    return await withExplainer(await readPlan(proxy.view), body);
  } finally {
    await proxy.stop();
  }
}

/** Consecutive sections with the same configuration share a proxy. */
function byConfiguration(sections: readonly Section[]): readonly (readonly Section[])[] {
  const groups: Section[][] = [];
  for (const section of sections) {
    const last = groups.at(-1);
    if (last?.[0]?.configuration === section.configuration) last?.push(section);
    else groups.push([section]);
  }
  return groups;
}

async function walkAll(
  sections: readonly Section[],
  stations: Stations,
  explainer: Explainer,
): Promise<SectionResult[]> {
  const results: SectionResult[] = [];
  for (const section of sections) results.push(await walk(section, stations, explainer));
  return results;
}

async function walkDefaults(stations: Stations, explainer: Explainer): Promise<SectionResult[]> {
  const [results, rows] = await Promise.all([
    walkAll(withDefaults, stations, explainer),
    walkAffinity(stations, explainer),
  ]);
  return [...results, { section: affinity, rows }];
}
