/**
 * Shows the purpose of each part of the kernel state: the proxy is stopped, one part is removed, and the outcomes
 * change. This also shows that the tests detect such a loss.
 */
import type { PlanFacts } from "../../src/answer/answers.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { flushChain, flushSet } from "../support/rules-writer.ts";
import { readPlan, withExplainer } from "./explained.ts";
import { inColumns } from "./matrix.ts";
import { type Path, type Row, type Section, transports } from "./path.ts";
import { startProxy } from "./proxy.ts";
import { type Frontend, ownPort, type ServiceName } from "./services.ts";
import { type Stations, walk } from "./walk.ts";

interface Part {
  /** Name of the part in the report. */
  readonly name: string;
  /** Shell lines that remove the part, for both families. */
  readonly lines: string;
  readonly paths: readonly PartPath[];
}

interface PartPath {
  readonly from: string;
  readonly service: ServiceName;
  readonly frontend: Frontend;
  /** The destination port, if it is not the Service's own port. */
  readonly otherPort?: number;
  readonly complete: string;
  readonly without: string;
  readonly except?: Path["except"];
}

const spread = "local←gateway, remote←node";

const parts: readonly Part[] = [
  {
    ...flushed("nat", "KUBE-MARK-MASQ"),
    paths: [
      fromTo("client", "cluster", "cluster IP", spread, "local←client, silence"),
      fromTo("client", "cluster", "node port", spread, "local←client, silence"),
    ],
  },
  {
    ...emptied("LOOP-BACK"),
    paths: [
      fromTo("local", "single", "cluster IP", "local←gateway", "silence"),
      fromTo("local", "single-local", "node port", "local←gateway", "silence"),
    ],
  },
  {
    ...emptied("CLUSTER-IP"),
    paths: [
      fromTo("pod", "single", "cluster IP", "local←pod", "refused"),
      fromTo("node", "single", "cluster IP", "local←gateway", "local←VIP"),
    ],
  },
  {
    ...emptied("NODE-PORT-LOCAL-TCP", "NODE-PORT-LOCAL-UDP"),
    paths: [fromTo("client", "local", "node port", "local←client", "local←gateway")],
  },
  {
    ...flushed("filter", "KUBE-IPVS-FILTER"),
    paths: [
      {
        ...fromTo("client", "cluster", "cluster IP", "refused", "node←client"),
        otherPort: ownPort,
        // The datagram arrives there, too, but a socket for all addresses answers from the node's address.
        except: inColumns("UDP", "silence"),
      },
    ],
  },
  {
    ...flushed("filter", "KUBE-SOURCE-RANGES-FIREWALL"),
    paths: [fromTo("client", "ranges", "load-balancer IP", "silence", "local←gateway")],
  },
  {
    ...flushed("filter", "KUBE-IPVS-OUT-FILTER"),
    paths: [fromTo("node", "ranges", "load-balancer IP", "silence", "local←gateway")],
  },
  {
    name: "sysctl net/ipv4/vs/conntrack",
    lines: "echo 0 > /proc/sys/net/ipv4/vs/conntrack",
    paths: [fromTo("client", "cluster", "cluster IP", spread, "local←client, silence")],
  },
];

function flushed(table: "nat" | "filter", chain: string): Pick<Part, "name" | "lines"> {
  return { name: `rules of ${chain}`, lines: flushChain(table, chain) };
}

function emptied(...sets: readonly string[]): Pick<Part, "name" | "lines"> {
  return {
    name: `entries of ${sets.map((set) => `KUBE-${set}`).join(", ")}`,
    lines: sets.map(flushSet).join("\n"),
  };
}

function fromTo(
  from: string,
  service: ServiceName,
  frontend: Frontend,
  complete: string,
  without: string,
): PartPath {
  return { from, service, frontend, complete, without };
}

const pathsByPart: ReadonlyMap<Part, readonly Path[]> = new Map(
  parts.map((part) => [part, part.paths.map((path) => pathOf(part, path))]),
);

function pathOf({ name }: Part, given: PartPath): Path {
  const { from, service, frontend, otherPort, complete, without: expected, except } = given;
  const address = otherPort === undefined ? frontend : `${frontend}, other port`;
  return {
    labels: [name, address, from, `\`${complete}\``],
    from,
    target:
      otherPort === undefined
        ? { kind: "service", service, frontend }
        : { kind: "other-port", service, frontend, port: otherPort },
    expected,
    ...(except === undefined ? {} : { except }),
  };
}

export const withoutParts: Section = {
  title: "Rules and sets removed one by one",
  text: [
    "The test stops the proxy, so that it cannot restore state, and removes one part of the kernel state. " +
      "Without the rules of KUBE-IPVS-FILTER, the node's own UDP server also gets the datagram, but replies " +
      "from the node's address.",
  ],
  headings: ["without", "address", "from", "otherwise"],
  columns: transports,
  paths: [...pathsByPart.values()].flat(),
};

export async function walkWithoutParts(stations: Stations): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const [{ lines }, paths] of pathsByPart) {
    // This restores the previously removed part.
    const facts = await planAndStop();
    shell(lines);
    const result = await withExplainer(facts, (explainer) =>
      walk({ ...withoutParts, paths }, stations, explainer),
    );
    rows.push(...result.rows);
  }
  return rows;
}

async function planAndStop(): Promise<PlanFacts> {
  const proxy = await startProxy();
  try {
    return await readPlan(proxy.view);
  } finally {
    await proxy.stop();
  }
}
