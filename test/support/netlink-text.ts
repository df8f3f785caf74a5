/**
 * IPVS and conntrack messages as text. The attributes are declared again here, independently of the tables in
 * `src/kernel`.
 */
import { bytes, text, u8, u16, u16be, u32, u32be } from "../../src/netlink/attribute-field.ts";
import { type AttributeSet, attributeSet, nested } from "../../src/netlink/attribute-set.ts";
import type { ByteReader } from "../../src/netlink/byte-reader.ts";
import { readGenericHeader } from "../../src/netlink/generic.ts";
import { skipNetfilterHeader } from "../../src/netlink/netfilter.ts";

const service = attributeSet({
  addressFamily: u16(1),
  protocol: u16(2),
  address: bytes(3),
  port: u16be(4),
  firewallMark: u32(5),
  scheduler: text(6),
  flags: bytes(7),
  timeoutSeconds: u32(8),
  netmask: bytes(9),
});

const destination = attributeSet({
  address: bytes(1),
  port: u16be(2),
  forwardingMethod: u32(3),
  weight: u32(4),
  upperThreshold: u32(5),
  lowerThreshold: u32(6),
  addressFamily: u16(11),
});

const ipvsCommand = attributeSet({
  service: nested(1, service),
  destination: nested(2, destination),
  tcpTimeoutSeconds: u32(4),
  tcpFinTimeoutSeconds: u32(5),
  udpTimeoutSeconds: u32(6),
});

/** The command and its attributes, such as `command=3 service={"addressFamily":2,…}`. */
export function ipvsMessageText(body: ByteReader): string {
  return [`command=${readGenericHeader(body)}`, ...attributesText(ipvsCommand, body)].join(" ");
}

const tuple = attributeSet({
  ip: nested(
    1,
    attributeSet({
      ipv4Source: bytes(1),
      ipv4Destination: bytes(2),
      ipv6Source: bytes(3),
      ipv6Destination: bytes(4),
    }),
  ),
  protocol: nested(
    2,
    attributeSet({ number: u8(1), sourcePort: u16be(2), destinationPort: u16be(3) }),
  ),
  zone: u16be(3),
});

const flow = attributeSet({
  original: nested(1, tuple),
  reply: nested(2, tuple),
  id: u32be(12),
  zone: u16be(18),
  filter: nested(25, attributeSet({ originalFlags: u32(1), replyFlags: u32(2) })),
});

/** The attributes of a flow or a query, such as `original={"protocol":{"number":17}} id=7`. */
export function flowMessageText(body: ByteReader): string {
  skipNetfilterHeader(body);
  return attributesText(flow, body).join(" ");
}

/** Unknown attributes are omitted. */
function attributesText<V extends object>(attributes: AttributeSet<V>, body: ByteReader): string[] {
  return Object.entries(attributes.decode(body)).map(
    ([name, value]) => `${name}=${JSON.stringify(value, withHex)}`,
  );
}

function withHex(_name: string, value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value;
}
