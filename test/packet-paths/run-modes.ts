/** Runs the sections of iptables and userspace mode in one set of namespaces. */
import { shell } from "../support/netns/network-namespace.ts";
import { withCommand } from "./explained.ts";
import { type ModeSections, modeSections } from "./modes.ts";
import type { Section, SectionResult } from "./path.ts";
import { startProxy, startUserspaceProxy } from "./proxy.ts";
import { startStations } from "./start-stations.ts";
import { type Stations, walk } from "./walk.ts";

export interface ModeResult {
  readonly given: ModeSections;
  readonly results: readonly SectionResult[];
}

/** Runs all sections, or those that are always tried. */
export async function runModes(which: "all" | "always"): Promise<readonly ModeResult[]> {
  const { stations, stop } = await startStations();
  // In modes without IPVS, kube-ipvs leaves this sysctl to the node.
  shell("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
  try {
    const all: ModeResult[] = [];
    for (const given of modeSections) {
      const sections = given.sections.filter((one) => which === "all" || given.always.has(one));
      all.push({ given, results: await runMode(given, sections, stations) });
    }
    return all;
  } finally {
    await stop();
  }
}

async function runMode(
  { mode, mostProbes = 0, isTurnShared = false }: ModeSections,
  sections: readonly Section[],
  stations: Stations,
): Promise<readonly SectionResult[]> {
  const results: SectionResult[] = [];
  const groups = Map.groupBy(sections, ({ configuration }) => configuration);
  for (const [configuration, group] of groups) {
    const proxy = await start(mode, configuration);
    try {
      const walked = await withCommand(proxy.modeView, async (explainer) => {
        const ofGroup: SectionResult[] = [];
        const options = { mostProbes, isTurnShared };
        for (const section of group) {
          ofGroup.push(await walk(section, stations, explainer, options));
        }
        return ofGroup;
      });
      results.push(...walked);
    } finally {
      await proxy.stop();
    }
  }
  if (mode === "iptables") removeRules();
  return results;
}

function start(
  mode: ModeSections["mode"],
  fields: Section["configuration"] = {},
): ReturnType<typeof startUserspaceProxy> {
  if (mode === "iptables") return startProxy({ mode, ...fields });
  return startUserspaceProxy(fields);
}

/** The rules remain after the proxy has stopped. */
function removeRules(): void {
  for (const tool of ["iptables", "ip6tables"]) {
    for (const table of ["nat", "filter", "mangle"]) {
      shell(`${tool} -w 5 -t ${table} -F; ${tool} -w 5 -t ${table} -X`);
    }
  }
}
