/**
 * Connection-tracking messages ↔ flows: linux/netfilter/nfnetlink_conntrack.h. A flow has two tuples: one for the
 * client's packets, one for the expected replies. Ports, IDs and zones are in network byte order.
 */
import {
  familyOf,
  type IpAddress,
  type IpFamily,
  ipAddressFromBytes,
  ipAddressToBytes,
  isLoopback,
} from "../../base/ip.ts";
import { type Protocol, protocolNumbers, protocolOfNumber } from "../../base/protocol.ts";
import { bytes, u8, u16be, u32, u32be } from "../../netlink/attribute-field.ts";
import { attributeSet, nested, required } from "../../netlink/attribute-set.ts";
import type { ByteReader } from "../../netlink/byte-reader.ts";
import { DecodeError } from "../../netlink/errors.ts";
import type { MessageWriter } from "../../netlink/message.ts";
import {
  addressFamilies,
  skipNetfilterHeader,
  writeNetfilterHeader,
} from "../../netlink/netfilter.ts";
import type { Flow, FlowSelection } from "../../state/flow.ts";

/** High byte: NFNL_SUBSYS_CTNETLINK. Low byte: IPCTNL_MSG_CT_*. */
export const messageTypes = { get: 0x101, delete: 0x102 } as const;

/** CTA_IP_*. */
const ipAttributes = attributeSet({
  ipv4Source: bytes(1, 4),
  ipv4Destination: bytes(2, 4),
  ipv6Source: bytes(3, 16),
  ipv6Destination: bytes(4, 16),
});

/** CTA_PROTO_*. ICMP has other attributes instead of ports. */
const protocolAttributes = attributeSet({
  number: u8(1),
  sourcePort: u16be(2),
  destinationPort: u16be(3),
});

/** CTA_TUPLE_*. */
const tupleAttributes = attributeSet({
  ip: nested(1, ipAttributes),
  protocol: nested(2, protocolAttributes),
  zone: u16be(3),
});

/** CTA_FILTER_*: bits that select the tuple fields to compare, in host byte order. Since Linux 5.8. */
const filterAttributes = attributeSet({ originalFlags: u32(1), replyFlags: u32(2) });

/** CTA_*. */
const flowAttributes = attributeSet({
  original: nested(1, tupleAttributes),
  reply: nested(2, tupleAttributes),
  id: u32be(12),
  zone: u16be(18),
  filter: nested(25, filterAttributes),
});

type FlowValues = ReturnType<typeof flowAttributes.decode>;
type Tuple = ReturnType<typeof tupleAttributes.decode>;
type Addresses = NonNullable<Tuple["ip"]>;

/** CTA_FILTER_FLAG: tuple fields to compare. Ports are compared only together with the protocol. */
const parts = {
  source: 0x1,
  destination: 0x2,
  protocol: 0x8,
  sourcePort: 0x10,
  destinationPort: 0x20,
} as const;

/** Selects the flows of one family and protocol. If `isFiltered` is true, the kernel omits all other flows. */
export interface FlowQuery {
  readonly family: IpFamily;
  readonly protocol: Protocol;
  readonly isFiltered: boolean;
  readonly selection?: FlowSelection;
}

/**
 * The same request as `conntrack -L -f ipv4 -p udp`. With a selection, it also has the options `-d`, `--dport`,
 * `--reply-src` and `--reply-port-src`. Kernels before 5.8 ignore the filter.
 */
export function encodeQuery(writer: MessageWriter, query: FlowQuery): void {
  const { family, protocol, isFiltered, selection } = query;
  writeNetfilterHeader(writer, addressFamilies[family]);
  if (!isFiltered) return;
  const number = protocolNumbers[protocol];
  const any = { original: { protocol: { number } }, filter: { originalFlags: parts.protocol } };
  flowAttributes.encode(writer, selection === undefined ? any : selected(number, selection));
}

/**
 * The filter contains only IPv4 addresses outside 127.0.0.0/8. If it contained an IPv6 address, kernels (tested: 6.1
 * and 6.18) would also return flows with other addresses. 127.0.0.1 stands for all of 127.0.0.0/8, so it cannot be an
 * exact filter.
 */
function selected(number: number, selection: FlowSelection): FlowValues {
  const { destination, destinationPort, answeredBy } = selection;
  const hasAddresses = familyOf(destination) === "IPv4" && !isLoopback(destination);
  const original = {
    ...(hasAddresses ? { ip: addressAs("Destination", destination) } : {}),
    protocol: { number, ...(destinationPort === undefined ? {} : { destinationPort }) },
  };
  const originalFlags =
    parts.protocol |
    (destinationPort === undefined ? 0 : parts.destinationPort) |
    (hasAddresses ? parts.destination : 0);
  if (answeredBy === undefined) return { original, filter: { originalFlags } };
  const reply = {
    ...(hasAddresses ? { ip: addressAs("Source", answeredBy.address) } : {}),
    protocol: { number, sourcePort: answeredBy.port },
  };
  const replyFlags = parts.protocol | parts.sourcePort | (hasAddresses ? parts.source : 0);
  return { original, reply, filter: { originalFlags, replyFlags } };
}

/**
 * The same request as `conntrack -D` with the whole original tuple. The ID prevents the deletion of a newer flow with
 * the same tuple. All tuple fields are required, because a deletion without a tuple would empty the table.
 */
export function encodeDeletion(writer: MessageWriter, flow: Flow): void {
  writeNetfilterHeader(writer, addressFamilies[familyOf(flow.source)]);
  flowAttributes.encode(writer, {
    original: {
      ip: addressesOf(flow),
      protocol: {
        number: protocolNumbers[flow.protocol],
        sourcePort: flow.sourcePort,
        destinationPort: flow.destinationPort,
      },
    },
    ...(flow.id === undefined ? {} : { id: flow.id }),
    ...(flow.zone === undefined || flow.zone === 0 ? {} : { zone: flow.zone }),
  });
}

/** Decodes a flow; undefined for protocols that Services do not use. */
export function decodeFlow(body: ByteReader): Flow | undefined {
  skipNetfilterHeader(body);
  const values = flowAttributes.decode(body);
  const original = required(values.original, "original tuple", body);
  const reply = required(values.reply, "reply tuple", body);
  const ports = required(original.protocol, "protocol", body);
  const replyPorts = required(reply.protocol, "reply protocol", body);
  const protocol = protocolOfNumber(required(ports.number, "protocol number", body));
  if (protocol === undefined) return undefined;
  const zone = values.zone ?? original.zone ?? 0;
  return {
    protocol,
    source: addressOf(original, "Source", body),
    sourcePort: required(ports.sourcePort, "source port", body),
    destination: addressOf(original, "Destination", body),
    destinationPort: required(ports.destinationPort, "destination port", body),
    replySource: addressOf(reply, "Source", body),
    replySourcePort: required(replyPorts.sourcePort, "reply source port", body),
    ...(values.id === undefined ? {} : { id: values.id }),
    ...(zone === 0 ? {} : { zone }),
  };
}

function addressesOf({ source, destination }: Flow): Addresses {
  return { ...addressAs("Source", source), ...addressAs("Destination", destination) };
}

function addressAs(side: "Source" | "Destination", address: IpAddress): Addresses {
  const version = familyOf(address) === "IPv4" ? "ipv4" : "ipv6";
  return { [`${version}${side}`]: ipAddressToBytes(address) };
}

function addressOf(
  tuple: Tuple,
  side: "Source" | "Destination",
  body: ByteReader,
): ReturnType<typeof ipAddressFromBytes> {
  const address = tuple.ip?.[`ipv4${side}`] ?? tuple.ip?.[`ipv6${side}`];
  if (address === undefined) throw new DecodeError(`${side}: address missing`, body.offset);
  return ipAddressFromBytes(address);
}
