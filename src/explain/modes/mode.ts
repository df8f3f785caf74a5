/** What explaining asks of a proxy mode. */

import type { Destination, PlanFacts } from "../../answer/answers.ts";
import type { Difference } from "../../answer/explanation.ts";
import type { Cidr } from "../../base/ip.ts";
import type { Match } from "../../state/rule.ts";
import type { Packet } from "../packet/packet.ts";
import type { PacketPath } from "../packet/path.ts";
import type { NodeNetwork, Picture } from "../packet/picture.ts";
import type { Walk } from "../packet/walk.ts";

/** What is planned and what is there, about one destination. */
export interface Compared {
  readonly planned: Picture;
  readonly observed: Picture;
  readonly network: NodeNetwork;
  readonly destination: Destination;
}

/** How one mode serves packets. Pure. */
export interface ExplainedMode {
  readonly name: PlanFacts["mode"];
  /** Where packets are that an endpoint was chosen for: `behind IPVS`. */
  readonly behindChoice: string;
  follow(walk: Walk): PacketPath;
  /** Who is let in, as planned or in force; empty: everybody. */
  sourceRanges(destination: Destination, pictures: readonly Picture[]): readonly Cidr[];
  /** Why a packet gets in, or does not. There are ranges. */
  sourceRangeText(packet: Packet, ranges: readonly Cidr[]): string;
  /** Which rule decides whether the endpoint sees the client; undefined: no endpoint gets the packet. */
  masqueradeText(path: PacketPath, network: NodeNetwork): string | undefined;
  /** How rules recognize pods of this node; undefined: they do not. */
  localDetector(planned: Picture): Match | undefined;
  /** Where the kernel is not as planned. */
  differences(compared: Compared): readonly Difference[];
}
