/** Checks whether other software's rules or rp_filter drop packets although the virtual servers are as planned. */
import type { Explanation, PacketLoss } from "../../answer/explanation.ts";
import { remedyFor } from "../../answer/explanation-advice.ts";
import { counted } from "../../base/counted.ts";
import { hostPort, type IpAddress } from "../../base/ip.ts";
import { type Check, check, fail, listed, ok, warn } from "../check.ts";

const rulesCheck = check({
  name: "packets",
  needs: ["installed", "daemon"],
  why: "other software's rules, or routes, can drop packets even if virtual servers and endpoints are as planned",
  read: (node) => node.packets(),
  judge(explanations) {
    const losses = explanations.flatMap(lossesOf);
    if (losses.length === 0) {
      const count = counted(explanations.length, "destination");
      const doubts = [...new Set(explanations.flatMap(doubtsOf))];
      const may =
        doubts.length === 0
          ? ""
          : `; these rules were not evaluated and may drop or translate packets: ${listed(doubts)}`;
      return ok(`traced packets to ${count}: no third-party rule stops them${may}`);
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
      `${remedyFor(losses)}; kube-ipvs explain --to ADDRESS:PORT shows the whole path`,
    );
  },
});

const reversePathCheck = check({
  name: "rp-filter",
  why: "a strict rp_filter drops a client's packets if the route back to the client uses a different interface",
  read: (node) => node.reversePath(),
  judge({ strictLinks, droppedPackets }) {
    const links = strictLinks.length === 0 ? "no interface" : listed(strictLinks);
    const evidence = `strict on ${links}; ${counted(droppedPackets, "packet")} dropped since boot`;
    if (strictLinks.length === 0) return ok(evidence);
    if (droppedPackets === 0)
      return ok(`${evidence}, apart from ARP requests, which are not counted`);
    return warn(
      evidence,
      "if the count grows: sysctl -w net.ipv4.conf.all.rp_filter=2, or correct the routes; kube-ipvs explain --from CLIENT --in INTERFACE --to ADDRESS:PORT shows the missing route",
    );
  },
});

export const packetChecks: readonly Check[] = [rulesCheck, reversePathCheck];

interface LossAt extends PacketLoss {
  /** For example: `default/web 10.96.0.10:80`. */
  readonly place: string;
  readonly from: string;
}

function lossesOf({ service, address, port, packets }: Explanation): readonly LossAt[] {
  if (service === undefined) return [];
  const place = `${service.namespace}/${service.name} ${hostPort(address as IpAddress, port)}`;
  return packets.flatMap(({ from, losses }) => losses.map((loss) => ({ ...loss, place, from })));
}

/** Rules that may drop or translate packets, but cannot be evaluated, for example `inet fw input: limit drop`. */
function doubtsOf({ service, packets }: Explanation): readonly string[] {
  if (service === undefined) return [];
  return packets
    .flatMap(({ path, deliveries }) => [...path, ...deliveries.flatMap((one) => one.path)])
    .filter(({ isMaybe }) => isMaybe === true)
    .map(({ table, chain, rule }) => `${table} ${chain}: ${rule}`);
}
