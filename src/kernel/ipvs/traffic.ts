/** Counters in GET_SERVICE and GET_DEST replies, linux/ip_vs.h. `codec.ts` decodes everything else. */
import type { IpFamily } from "../../base/ip.ts";
import { bytes, type Field, u16, u16be, u32 } from "../../netlink/attribute-field.ts";
import { type AttributeSet, attributeSet, nested, required } from "../../netlink/attribute-set.ts";
import { type ByteReader, isLittleEndianHost } from "../../netlink/byte-reader.ts";
import {
  type ConnectionCounts,
  noTraffic,
  type RealServerTraffic,
  type Traffic,
  type VirtualServerTraffic,
} from "../../state/traffic.ts";
import { addressOf, familyOfNumber, idOf, readCommand } from "./codec.ts";
import { commands } from "./constants.ts";

/** A counter of 32 or 64 bits. The result is exact up to 9,007 TB. */
function counter(type: number): Field<number> {
  const { widthBytes: _, ...field } = u32(type);
  return { ...field, read: readCounter };
}

function readCounter(payload: ByteReader): number {
  if (payload.remaining === 4) return payload.u32("counter");
  const [first, second] = [payload.u32("counter"), payload.u32("counter")];
  return isLittleEndianHost ? first + second * 2 ** 32 : first * 2 ** 32 + second;
}

/** IPVS_STATS_ATTR_*. The attributes after these are rates. */
const counters: AttributeSet<Partial<Traffic>> = attributeSet({
  connections: counter(1),
  packetsIn: counter(2),
  packetsOut: counter(3),
  bytesIn: counter(4),
  bytesOut: counter(5),
});
/** Most counters in `stats` have 32 bits. `stats64` has existed since Linux 4.1. */
const stats = { stats: nested(10, counters), stats64: nested(12, counters) } as const;

/** IPVS_SVC_ATTR_*, in IPVS_CMD_ATTR_SERVICE. */
const serviceAttributes = attributeSet({
  service: nested(
    1,
    attributeSet({
      addressFamily: u16(1),
      protocol: u16(2),
      address: bytes(3),
      port: u16be(4),
      firewallMark: u32(5),
      ...stats,
    }),
  ),
});

/** IPVS_DEST_ATTR_*, in IPVS_CMD_ATTR_DEST. */
const connectionFields = { activeConnections: u32(7), inactiveConnections: u32(8) } as const;
const connectionAttributes = attributeSet({
  destination: nested(2, attributeSet(connectionFields)),
});
const destinationAttributes = attributeSet({
  destination: nested(
    2,
    attributeSet({
      address: bytes(1),
      port: u16be(2),
      weight: u32(4),
      ...connectionFields,
      addressFamily: u16(11),
      ...stats,
    }),
  ),
});

/** Undefined for an address or protocol that kube-ipvs does not use. */
export function readVirtualServerTraffic(body: ByteReader): VirtualServerTraffic | undefined {
  readCommand(body, commands.newService);
  const values = required(serviceAttributes.decode(body).service, "service", body);
  const family = familyOfNumber(required(values.addressFamily, "address family", body), body);
  const id = idOf(values, family, body);
  return id && { ...id, traffic: trafficOf(values) };
}

/** Decodes a real server of a virtual server of `serverFamily`, with its counters. */
export function readRealServerTraffic(body: ByteReader, serverFamily: IpFamily): RealServerTraffic {
  readCommand(body, commands.newDestination);
  const values = required(destinationAttributes.decode(body).destination, "destination", body);
  const { port = 0, weight = 0, activeConnections = 0, inactiveConnections = 0 } = values;
  // With tunnels, this can differ from the virtual server's family. Older kernels send 0.
  const ownFamily = values.addressFamily ?? 0;
  const family = ownFamily === 0 ? serverFamily : familyOfNumber(ownFamily, body);
  const address = addressOf(family, required(values.address, "address", body), body);
  const traffic = trafficOf(values);
  return { address, port, weight, activeConnections, inactiveConnections, traffic };
}

/** Sums the connections of all real servers of one reply. */
export function sumConnections(bodies: readonly ByteReader[]): ConnectionCounts {
  const sums = { activeConnections: 0, inactiveConnections: 0 };
  for (const body of bodies) {
    readCommand(body, commands.newDestination);
    const { destination = {} } = connectionAttributes.decode(body);
    sums.activeConnections += destination.activeConnections ?? 0;
    sums.inactiveConnections += destination.inactiveConnections ?? 0;
  }
  return sums;
}

function trafficOf(values: {
  readonly stats?: Partial<Traffic>;
  readonly stats64?: Partial<Traffic>;
}): Traffic {
  return { ...noTraffic, ...(values.stats64 ?? values.stats) };
}
