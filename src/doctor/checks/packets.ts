/** Packets that the node drops although the virtual servers are as planned: rules of other software, and rp_filter. */
import type { Explanation, PacketExplanation, PathStep } from "../../answer/explanation.ts";
import { counted } from "../../base/counted.ts";
import { hostPort, type IpAddress } from "../../base/ip.ts";
import { type Check, check, fail, listed, ok, warn } from "../check.ts";

const rulesCheck = check({
  name: "packets",
  needs: ["installed", "daemon"],
  why: "virtual servers and endpoints can be as planned, and a rule of other software still drops the packets",
  read: (node) => node.packets(),
  judge(explanations) {
    const losses = explanations.flatMap(lossesOf);
    if (losses.length === 0) {
      const count = counted(explanations.length, "destination");
      return ok(`followed packets to ${count}: no rule of other software stops them`);
    }
    const byCause = Map.groupBy(losses, ({ cause }) => cause);
    const texts = [...byCause].map(([cause, these]) => {
      const places = new Set(these.map(({ place }) => place));
      const sources = new Set(these.map(({ from }) => from));
      return `packets to ${listed([...places])} from ${[...sources].join(", ")} ${cause}`;
    });
    // A firewall may be meant to keep other machines away.
    const isIntended = losses.every(({ from, isCertain }) => from === "elsewhere" || !isCertain);
    return (isIntended ? warn : fail)(
      listed(texts),
      "let packets and answers of Services through in the software that wrote the rule (iptables-save shows it); kube-ipvs explain --to ADDRESS:PORT shows the whole path",
    );
  },
});

const reversePathCheck = check({
  name: "rp-filter",
  why: "a strict rp_filter drops packets of a client to which the route leaves through another interface",
  read: (node) => node.reversePath(),
  judge({ strictLinks, droppedPackets }) {
    const links = strictLinks.length === 0 ? "no interface" : listed(strictLinks);
    const evidence = `strict on ${links}; ${counted(droppedPackets, "packet")} dropped since boot`;
    if (strictLinks.length === 0 || droppedPackets === 0) return ok(evidence);
    return warn(
      evidence,
      "if the count grows: sysctl -w net.ipv4.conf.all.rp_filter=2, or correct the routes; kube-ipvs explain --from CLIENT --in INTERFACE --to ADDRESS:PORT shows the route that is missing",
    );
  },
});

export const packetChecks: readonly Check[] = [rulesCheck, reversePathCheck];

interface Loss {
  /** `are dropped by raw PREROUTING: -j DROP`. */
  readonly cause: string;
  /** `default/web 10.96.0.10:80`. */
  readonly place: string;
  readonly from: string;
  readonly isCertain: boolean;
}

function lossesOf({ service, address, port, packets }: Explanation): readonly Loss[] {
  if (service === undefined) return [];
  const place = `${service.namespace}/${service.name} ${hostPort(address as IpAddress, port)}`;
  return packets.flatMap((packet) =>
    [...stopsOf(packet)].flatMap(([fate, step, obstacle]): readonly Loss[] => {
      const { table, chain, rule, unless, isPlanned } = step ?? {};
      if (obstacle === undefined && isPlanned !== false) return [];
      const doubt = unless === undefined ? "" : `, unless a rule lets them through: ${unless}`;
      const cause =
        obstacle === undefined
          ? `are ${fate} by ${table} ${chain}: ${rule}${doubt}`
          : `get lost: ${obstacle}`;
      return [{ cause, place, from: packet.from, isCertain: unless === undefined }];
    }),
  );
}

/** Where packets end, to no endpoint or to some of them. */
function* stopsOf({
  verdict,
  path,
  deliveries,
}: PacketExplanation): Generator<
  readonly [fate: string, by: PathStep | undefined, obstacle?: string | undefined]
> {
  if (deliveries.length === 0 && (verdict === "dropped" || verdict === "refused")) {
    yield [verdict, path.at(-1)];
  }
  for (const { fate, path: steps, obstacle } of deliveries) {
    if (fate !== "delivered") yield [fate, steps.at(-1), obstacle];
  }
}
