/** Asks `explain` about random packets in random states of a node, and then sends the packets. */
import type { Destination, PlanFacts } from "../../src/answer/answers.ts";
import { systemClock } from "../../src/base/clock.ts";
import { type IpAddress, parseIpAddress } from "../../src/base/ip.ts";
import { planFacts } from "../../src/daemon/operator/plan-facts.ts";
import { explainWith } from "../../src/explain/explain.ts";
import type { From } from "../../src/explain/origins.ts";
import { type KernelReaders, openReaders } from "../../src/kernel/open-readers.ts";
import { startProxy } from "../packet-paths/proxy.ts";
import { startStations } from "../packet-paths/start-stations.ts";
import type { Station } from "../packet-paths/station.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { labRules } from "../support/rules-writer.ts";
import { Draw } from "./draw.ts";
import { drawServices, objectsOf } from "./drawn-services.ts";
import { foreignSets } from "./foreign-rules.ts";
import { isAsPredicted, outcomeText, type Prediction, predictionOf } from "./prediction.ts";
import { drawScene, type Scene, type Tuple, tupleText } from "./scene.ts";

export interface Result {
  readonly kind: "right" | "may" | "wrong";
  /** The rules that the explanation could not evaluate. */
  readonly doubts: readonly string[];
  /** The scene's name, the packet, the prediction and the outcome. */
  readonly text: string;
}

export interface RunOptions {
  readonly firstSeed: number;
  readonly tupleCount: number;
}

const tuplesPerScene = 10;
const scenesPerDaemon = 4;
const silenceMs = 1_500;
const mixedMs = 3_000;
const answerMs = 6_000;

export async function runScenes({ firstSeed, tupleCount }: RunOptions): Promise<readonly Result[]> {
  const sceneCount = Math.ceil(tupleCount / tuplesPerScene);
  const { stations, stop } = await startStations();
  const results: Result[] = [];
  try {
    shell(`
      ip -n client route add 10.244.1.0/24 via 192.168.10.11
      ip -n client route add 10.244.8.0/24 via 192.168.10.11
      ip -n client -6 route add fd00:244:1::/64 via fd00:10::11
      ip -n client -6 route add fd00:244:8::/64 via fd00:10::11
    `);
    for (let index = 0; index < sceneCount; index += scenesPerDaemon) {
      const count = Math.min(scenesPerDaemon, sceneCount - index);
      results.push(...(await runNode(firstSeed + index, count, stations)));
    }
  } finally {
    await stop();
  }
  return results;
}

type Stations = ReadonlyMap<string, Station>;

/** Runs consecutive scenes on a node with the same settings and Services. The seeds of the scenes are consecutive. */
async function runNode(seed: number, sceneCount: number, stations: Stations): Promise<Result[]> {
  const draw = new Draw(seed);
  const services = drawServices(draw);
  const fields = {
    iptables: { masqueradeAll: draw.isChosen(0.25), localhostNodePorts: draw.isChosen(0.5) },
    ipvs: { udpTimeout: "5s", syncPeriod: "1h" },
    kubeIpvs: {
      ignoreRunningKubeProxy: true,
      verificationPeriod: "1h",
      ruleCheckPeriod: "1h",
    },
  };
  const scenes = Array.from({ length: sceneCount }, (_, index) =>
    drawScene(seed + index, {
      ...{ services, tupleCount: tuplesPerScene },
      hasNft: hasNft(),
      hasIptables: labRules === undefined,
    }),
  );
  const results: Result[] = [];
  shell(forgetEverything);
  const objects = objectsOf(services);
  const proxy = await startProxy(fields, objects);
  const facts = new Map<Tuple, PlanFacts>();
  try {
    for (const { tuples } of scenes) {
      for (const tuple of tuples) {
        const from = fromOf(tuple);
        const asks = from === "node" ? {} : { from };
        const query = { kind: "destination", destination: destinationOf(tuple), ...asks } as const;
        facts.set(tuple, await planFacts(proxy.view, query));
      }
    }
  } finally {
    await proxy.stop();
  }
  shell(remember);
  for (const [index, scene] of scenes.entries()) {
    const found = await runScene(seed + index, scene, facts, stations);
    // `nft` cannot restore the bytes that it prints for source ranges.
    if (!isWithIptables && scene.changesRules) await (await startProxy(fields, objects)).stop();
    console.log(found.map(({ text }) => text).join("\n"));
    results.push(...found);
  }
  return results;
}

async function runScene(
  seed: number,
  scene: Scene,
  facts: ReadonlyMap<Tuple, PlanFacts>,
  stations: Stations,
): Promise<readonly Result[]> {
  shell(scene.script);
  try {
    const predictions = await predict(scene, facts);
    const outcomes = await Promise.all(
      predictions.map(({ tuple, prediction }) => send(tuple, prediction, stations)),
    );
    return predictions.map(({ tuple, prediction, summary }, index): Result => {
      const actual = outcomes[index] ?? "";
      const isRight = isAsPredicted(prediction, actual);
      const { doubts } = prediction;
      const kind = doubts.length > 0 ? "may" : isRight ? "right" : "wrong";
      const said = [...prediction.outcomes].join(" or ");
      const text = `${kind} ${seed} ${scene.title} | ${tupleText(tuple)} | said ${said} | was ${actual}`;
      return {
        ...{ kind, doubts },
        text: kind === "right" ? text : `${text} | ${[summary, ...doubts].join(" | ")}`,
      };
    });
  } finally {
    shell(`${scene.mends}\n${restore}`);
  }
}

interface Predicted {
  readonly tuple: Tuple;
  readonly prediction: Prediction;
  readonly summary: string;
}

async function predict(
  { tuples, deadPlaces }: Scene,
  facts: ReadonlyMap<Tuple, PlanFacts>,
): Promise<readonly Predicted[]> {
  const opened = openReaders(systemClock);
  try {
    const readers = readersOnce(opened);
    const predicted: Predicted[] = [];
    for (const tuple of tuples) {
      const planned = facts.get(tuple);
      if (planned === undefined) throw new Error(`No facts for ${tupleText(tuple)}`);
      const { inLink } = tuple.sender;
      const link = inLink === undefined ? {} : { inLink };
      const [explanation] = await explainWith(readers, planned, fromOf(tuple), link);
      if (explanation === undefined) throw new Error(`No explanation of ${tupleText(tuple)}`);
      const prediction = predictionOf(explanation, tuple, deadPlaces);
      predicted.push({ tuple, prediction, summary: explanation.summary });
    }
    return predicted;
  } finally {
    opened.close();
  }
}

/** Nothing changes while a scene's packets are explained, so slow reads happen only once. */
function readersOnce(opened: KernelReaders): Parameters<typeof explainWith>[0] {
  const remembered = new Map<string, unknown>();
  const once = <T>(key: string, read: () => T): T => {
    if (!remembered.has(key)) remembered.set(key, read());
    return remembered.get(key) as T;
  };
  return {
    ...opened,
    nftRules: { read: (hasIptables) => once("nft", () => opened.nftRules.read(hasIptables)) },
    openRules: async (backend) => {
      const rules = await once("rules", () => opened.openRules(backend));
      return {
        observe: (family, scope) => once(`rules ${family}`, () => rules.observe(family, scope)),
      };
    },
  };
}

function send(tuple: Tuple, { outcomes }: Prediction, stations: Stations): Promise<string> {
  const { sender, protocol, address, port } = tuple;
  const station = stations.get(sender.place);
  if (station === undefined) throw new Error(`No station at ${sender.place}`);
  const isSilent = outcomes.has("dropped");
  const timeoutMs = isSilent ? (outcomes.size === 1 ? silenceMs : mixedMs) : answerMs;
  const source = sender.boundTo === undefined ? {} : { source: sender.boundTo };
  const sizes = { payloadBytes: 1, answerBytes: 1 };
  return station
    .probe({ protocol, address, port, ...source, ...sizes, timeoutMs })
    .then(outcomeText);
}

function destinationOf({ protocol, address, port }: Tuple): Destination {
  return { protocol, address: ipOf(address), port };
}

function fromOf({ sender: { from } }: Tuple): From {
  return from === "node" ? "node" : ipOf(from);
}

function ipOf(text: string): IpAddress {
  const address = parseIpAddress(text);
  if (address === undefined) throw new Error(`Not an address: ${text}`);
  return address;
}

/** Whether this kernel has nf_tables with NAT chains. */
function hasNft(): boolean {
  const chain = "{ type nat hook prerouting priority 0; }";
  return (
    shell(
      `nft add table ip tried 2> /dev/null && nft add chain ip tried tried '${chain}' 2> /dev/null && nft delete table ip tried && echo yes || true`,
    ).trim() === "yes"
  );
}

const isWithIptables = labRules === undefined;

/** Removes the previous node's rules, sets, virtual servers and addresses. */
const forgetEverything = `
  ipvsadm -C; ip link del kube-ipvs0 2> /dev/null || true
  ${
    isWithIptables
      ? `for program in iptables ip6tables; do for table in raw mangle nat filter; do
           $program -w 5 -t $table -F; $program -w 5 -t $table -X
         done; done
         ipset destroy`
      : ""
  }
  nft flush ruleset 2> /dev/null || true
`;

const remember = `
  ${
    isWithIptables
      ? `${foreignSets}
         iptables-save > /run/iptables.before; ip6tables-save > /run/ip6tables.before
         ipset save > /run/ipset.before`
      : ""
  }
  ipvsadm -Sn > /run/ipvs.before
`;

const restore = `
  ${
    isWithIptables
      ? `iptables-restore -w 5 < /run/iptables.before; ip6tables-restore -w 5 < /run/ip6tables.before
         ipset flush; ipset -exist restore < /run/ipset.before`
      : ""
  }
  if nft list tables 2> /dev/null | grep -q .; then
    nft list tables | grep -vE ' ip6? (raw|mangle|nat|filter|kube-ipvs)$' | sed 's/^/delete /' | nft -f -
  fi
  ipvsadm -C; ipvsadm -R < /run/ipvs.before
  conntrack -F 2> /dev/null
`;
