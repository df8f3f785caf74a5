/** IPVS messages ↔ virtual and real servers. Covers everything after the netlink header. */
import { familyOf, type IpFamily, ipAddressFromBytes } from "../../base/ip.ts";
import { protocolNumbers, protocolOfNumber } from "../../base/protocol.ts";
import { bytes, text, u16, u16be, u32 } from "../../netlink/attribute-field.ts";
import {
  attributeSet,
  nested,
  required,
  writeAttribute,
  writeNested,
} from "../../netlink/attribute-set.ts";
import type { ByteReader } from "../../netlink/byte-reader.ts";
import { DecodeError } from "../../netlink/errors.ts";
import { readGenericHeader, writeGenericHeader } from "../../netlink/generic.ts";
import type { MessageWriter } from "../../netlink/message.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import {
  limitOf,
  type ObservedRealServer,
  type RealServer,
  type RealServerId,
} from "../../state/real-server.ts";
import {
  markServerId,
  type VirtualServer,
  type VirtualServerId,
} from "../../state/virtual-server.ts";
import type { IpvsChange, IpvsTimeouts } from "../kernel.ts";
import {
  changeCommands,
  commands,
  FORWARDING_MASK,
  GENERIC_VERSION,
  HASHED_FLAG,
  PERSISTENT_FLAG,
} from "./constants.ts";
import { flagsWithMask, netmaskBytes, prefixLengthOf, writeAddress } from "./fields.ts";

/** IPVS_SVC_ATTR_*. The key is address family, protocol, address and port, or address family and firewall mark. */
const serviceFields = {
  addressFamily: u16(1),
  protocol: u16(2),
  address: bytes(3),
  port: u16be(4),
  firewallMark: u32(5),
  scheduler: text(6),
  flags: flagsWithMask(7),
  timeoutSeconds: u32(8),
  netmask: bytes(9, 4),
};
const serviceAttributes = attributeSet(serviceFields);

/** IPVS_DEST_ATTR_*. Requests must contain both thresholds; only replies contain the counts. */
const destinationFields = {
  address: bytes(1),
  port: u16be(2),
  forwardingMethod: u32(3),
  weight: u32(4),
  upperThreshold: u32(5),
  lowerThreshold: u32(6),
  activeConnections: u32(7),
  inactiveConnections: u32(8),
  persistentConnections: u32(9),
  addressFamily: u16(11),
};
const destinationAttributes = attributeSet(destinationFields);

/** IPVS_CMD_ATTR_*. */
const commandFields = {
  service: nested(1, serviceAttributes),
  destination: nested(2, destinationAttributes),
  tcpTimeoutSeconds: u32(4),
  tcpFinTimeoutSeconds: u32(5),
  udpTimeoutSeconds: u32(6),
};
const commandAttributes = attributeSet(commandFields);

type CommandValues = ReturnType<typeof commandAttributes.decode>;
type ServiceValues = NonNullable<CommandValues["service"]>;

/** A service from the kernel's list. */
export type ListedService =
  | { readonly kind: "virtual-server"; readonly virtualServer: VirtualServer }
  /**
   * A service with an IPv4-mapped IPv6 address. Kubernetes does not use such addresses, and their text would equal that
   * of an IPv4 server.
   */
  | { readonly kind: "foreign" };

/** The same requests as `ipvsadm -A`, `-E`, `-D`, `-a`, `-e` and `-d`. */
export function encodeChange(writer: MessageWriter, change: IpvsChange): void {
  writeGenericHeader(writer, changeCommands[change.kind], GENERIC_VERSION);
  switch (change.kind) {
    case "virtual-server-create":
    case "virtual-server-update":
      writeNested(writer, serviceType, change.after, writeService);
      return;
    case "virtual-server-remove":
      writeServiceKey(writer, change.before);
      return;
    case "real-server-create":
    case "real-server-update":
      writeServiceKey(writer, change.virtualServer);
      writeNested(writer, destinationType, change.after, writeDestination);
      return;
    case "real-server-remove":
      writeServiceKey(writer, change.virtualServer);
      writeNested(writer, destinationType, change.before, writeDestinationIdentity);
      return;
  }
}

function encodeCommand(writer: MessageWriter, command: number, values: CommandValues): void {
  writeGenericHeader(writer, command, GENERIC_VERSION);
  commandAttributes.encode(writer, values);
}

/** Encodes a command without attributes. */
export function encodeQuery(writer: MessageWriter, command: number): void {
  encodeCommand(writer, command, {});
}

/** A service that selects packets by firewall mark, as `ipvsadm -A -f MARK` creates it. */
export interface FirewallMarkService {
  readonly family: IpFamily;
  readonly mark: number;
  readonly scheduler: string;
  readonly prefixLength: number;
}

export function encodeFirewallMarkService(
  writer: MessageWriter,
  command: number,
  { family, mark, scheduler, prefixLength }: FirewallMarkService,
): void {
  encodeCommand(writer, command, {
    service: {
      addressFamily: addressFamilies[family],
      firewallMark: mark,
      scheduler,
      flags: 0,
      timeoutSeconds: 0,
      netmask: netmaskBytes(family, prefixLength),
    },
  });
}

/** Encodes the request for a single virtual server. Unlike the other read requests, it is not a dump. */
export function encodeFindVirtualServer(writer: MessageWriter, id: VirtualServerId): void {
  writeGenericHeader(writer, commands.getService, GENERIC_VERSION);
  writeServiceKey(writer, id);
}

/** Encodes the dump request for one virtual server's real servers. */
export function encodeListRealServers(writer: MessageWriter, id: VirtualServerId): void {
  writeGenericHeader(writer, commands.getDestination, GENERIC_VERSION);
  writeServiceKey(writer, id);
}

/** Encodes SET_CONFIG. For a value of 0, the kernel keeps its current timeout. */
export function encodeTimeouts(writer: MessageWriter, timeouts: IpvsTimeouts): void {
  encodeCommand(writer, commands.setConfig, {
    tcpTimeoutSeconds: timeouts.tcpSeconds,
    tcpFinTimeoutSeconds: timeouts.tcpFinSeconds,
    udpTimeoutSeconds: timeouts.udpSeconds,
  });
}

export function decodeTimeouts(body: ByteReader): IpvsTimeouts {
  const values = decodeCommand(body, commands.setConfig);
  return {
    tcpSeconds: required(values.tcpTimeoutSeconds, "TCP timeout", body),
    tcpFinSeconds: required(values.tcpFinTimeoutSeconds, "TCP FIN timeout", body),
    udpSeconds: required(values.udpTimeoutSeconds, "UDP timeout", body),
  };
}

/** Decodes one message of a GET_SERVICE reply. */
export function decodeService(body: ByteReader): ListedService {
  const values = required(decodeCommand(body, commands.newService).service, "service", body);
  const virtualServer = virtualServerOf(values, body);
  return virtualServer === undefined
    ? { kind: "foreign" }
    : { kind: "virtual-server", virtualServer };
}

function virtualServerOf(values: ServiceValues, body: ByteReader): VirtualServer | undefined {
  const family = familyOfNumber(required(values.addressFamily, "address family", body), body);
  const id = idOf(values, family, body);
  if (id === undefined) return undefined;
  const flags = required(values.flags, "flags", body);
  const timeoutSeconds = required(values.timeoutSeconds, "timeout", body);
  // kube-ipvs never creates a persistent service with timeout 0. The flag remains in `flags`, so the service is
  // recognized as different.
  const isPersistent = (flags & PERSISTENT_FLAG) !== 0 && timeoutSeconds > 0;
  return {
    ...id,
    scheduler: required(values.scheduler, "scheduler", body),
    persistenceTimeoutSeconds: isPersistent ? timeoutSeconds : 0,
    persistencePrefixLength: prefixLengthOf(family, required(values.netmask, "netmask", body)),
    flags: flags & ~HASHED_FLAG & ~(isPersistent ? PERSISTENT_FLAG : 0),
  };
}

/** Undefined for an address or protocol that kube-ipvs does not use. */
export function idOf(
  values: {
    readonly protocol?: number;
    readonly address?: Uint8Array;
    readonly port?: number;
    readonly firewallMark?: number;
  },
  family: IpFamily,
  body: ByteReader,
): VirtualServerId | undefined {
  if (values.firewallMark !== undefined) return markServerId(family, values.firewallMark);
  const protocol = protocolOfNumber(required(values.protocol, "protocol", body));
  const address = addressOf(family, required(values.address, "address", body), body);
  if (protocol === undefined || familyOf(address) !== family) return undefined;
  return { protocol, address, port: required(values.port, "port", body) };
}

/** Decodes a message of a GET_DEST reply for a virtual server of `serverFamily`. */
export function decodeRealServer(body: ByteReader, serverFamily: IpFamily): ObservedRealServer {
  const command = decodeCommand(body, commands.newDestination);
  const values = required(command.destination, "destination", body);
  const ownFamily = values.addressFamily ?? 0;
  const family = ownFamily === 0 ? serverFamily : familyOfNumber(ownFamily, body);
  return {
    address: addressOf(family, required(values.address, "address", body), body),
    port: required(values.port, "port", body),
    weight: required(values.weight, "weight", body),
    forwardingMethod:
      required(values.forwardingMethod, "forwarding method", body) & FORWARDING_MASK,
    ...limitOf(values.upperThreshold ?? 0, values.lowerThreshold ?? 0),
    activeConnections: values.activeConnections ?? 0,
    inactiveConnections: values.inactiveConnections ?? 0,
    persistentConnections: values.persistentConnections ?? 0,
  };
}

function decodeCommand(body: ByteReader, expected: number): CommandValues {
  readCommand(body, expected);
  return commandAttributes.decode(body);
}

/** Reads a message header. Throws DecodeError if the command is not `expected`. */
export function readCommand(body: ByteReader, expected: number): void {
  const start = body.offset;
  const command = readGenericHeader(body);
  if (command !== expected) {
    throw new DecodeError(`IPVS command ${command} instead of ${expected}`, start);
  }
}

const { type: serviceType } = commandFields.service;
const { type: destinationType } = commandFields.destination;

function writeServiceKey(writer: MessageWriter, id: VirtualServerId): void {
  writeNested(writer, serviceType, id, writeServiceIdentity);
}

function writeServiceIdentity(writer: MessageWriter, id: VirtualServerId): void {
  writeAttribute(writer, serviceFields.addressFamily, addressFamilies[familyOf(id.address)]);
  if (id.protocol === "FWM") {
    writeAttribute(writer, serviceFields.firewallMark, id.port);
    return;
  }
  writeAttribute(writer, serviceFields.protocol, protocolNumbers[id.protocol]);
  writeAddress(writer, serviceFields.address.type, id.address);
  writeAttribute(writer, serviceFields.port, id.port);
}

function writeService(writer: MessageWriter, server: VirtualServer): void {
  const { scheduler, persistenceTimeoutSeconds, persistencePrefixLength } = server;
  const persistent = persistenceTimeoutSeconds > 0 ? PERSISTENT_FLAG : 0;
  const netmask = netmaskBytes(familyOf(server.address), persistencePrefixLength);
  writeServiceIdentity(writer, server);
  writeAttribute(writer, serviceFields.scheduler, scheduler);
  writeAttribute(writer, serviceFields.flags, server.flags | persistent);
  writeAttribute(writer, serviceFields.timeoutSeconds, persistenceTimeoutSeconds);
  writeAttribute(writer, serviceFields.netmask, netmask);
}

function writeDestinationIdentity(writer: MessageWriter, id: RealServerId): void {
  writeDestinationPlace(writer, id);
  writeDestinationFamily(writer, id);
}

function writeDestination(writer: MessageWriter, server: RealServer): void {
  writeDestinationPlace(writer, server);
  writeAttribute(writer, destinationFields.forwardingMethod, server.forwardingMethod);
  writeAttribute(writer, destinationFields.weight, server.weight);
  writeAttribute(writer, destinationFields.upperThreshold, server.limit?.upper ?? 0);
  writeAttribute(writer, destinationFields.lowerThreshold, server.limit?.lower ?? 0);
  writeDestinationFamily(writer, server);
}

function writeDestinationPlace(writer: MessageWriter, { address, port }: RealServerId): void {
  writeAddress(writer, destinationFields.address.type, address);
  writeAttribute(writer, destinationFields.port, port);
}

function writeDestinationFamily(writer: MessageWriter, { address }: RealServerId): void {
  writeAttribute(writer, destinationFields.addressFamily, addressFamilies[familyOf(address)]);
}

export function familyOfNumber(number: number, body: ByteReader): IpFamily {
  if (number === addressFamilies.IPv4) return "IPv4";
  if (number === addressFamilies.IPv6) return "IPv6";
  throw new DecodeError(`address family ${number}`, body.offset);
}

export function addressOf(
  family: IpFamily,
  bytes: Uint8Array,
  body: ByteReader,
): ReturnType<typeof ipAddressFromBytes> {
  const length = family === "IPv4" ? 4 : 16;
  if (bytes.length < length) throw new DecodeError(`address of ${bytes.length} bytes`, body.offset);
  return ipAddressFromBytes(bytes.subarray(0, length));
}
