/** Set entries: text ↔ attribute values. Pure. */
import {
  type Cidr,
  cidrText,
  familyOf,
  hostPrefixLength,
  type IpAddress,
  parseCidr,
} from "../../base/ip.ts";
import { type Protocol, protocolNumbers, protocolOfNumber } from "../../base/protocol.ts";
import { DecodeError } from "../../netlink/errors.ts";
import type { IpSetType } from "../../state/ip-set.ts";
import {
  addressEntry,
  addressPortAddressEntry,
  addressPortEntry,
  addressPortNetEntry,
  portEntry,
  type SetEntry,
  type SetEntryFields,
  setEntryFields,
} from "../../state/set-entry.ts";
import type { EntryValues } from "./attributes.ts";
import { noMatchFlag } from "./constants.ts";

/** Parses an entry's text. Throws RangeError if the text is not an entry or does not fit the set type. */
export function entryValues(type: IpSetType, entry: SetEntry): EntryValues {
  const parts = setEntryFields(entry);
  if (!fits(parts, partsOfType[type]))
    throw new RangeError(`Entry ${entry} does not fit a ${type} set`);
  const { address, protocol, port, second } = parts;
  const values: { -readonly [Name in keyof EntryValues]: EntryValues[Name] } = {};
  if (address !== undefined) values.address = address;
  if (port !== undefined) values.port = checkPort(entry, port);
  if (protocol !== undefined) values.protocolNumber = numberOfProtocol(entry, protocol);
  if (second === undefined) return values;
  values.secondAddress = second.address;
  if (type === "hash:ip,port,net") values.secondPrefixLength = second.prefixLength;
  return values;
}

type PartNames = { readonly [Name in keyof SetEntryFields]?: true };

const partsOfType: Readonly<Record<IpSetType, PartNames>> = {
  "hash:ip": { address: true },
  "hash:ip,port": { address: true, port: true, protocol: true },
  "hash:ip,port,ip": { address: true, port: true, protocol: true, second: true },
  "hash:ip,port,net": { address: true, port: true, protocol: true, second: true },
  "bitmap:port": { port: true },
};

function fits({ address, port, protocol, second }: SetEntryFields, wanted: PartNames): boolean {
  return (
    (address !== undefined) === (wanted.address === true) &&
    (port !== undefined) === (wanted.port === true) &&
    (protocol !== undefined) === (wanted.protocol === true) &&
    (second !== undefined) === (wanted.second === true)
  );
}

/** The entry's text as printed by `ipset list`. Throws DecodeError if a field is missing. */
export function entryText(type: IpSetType, values: EntryValues): SetEntry {
  const port = (): number => present(values.port, "port");
  const address = (): IpAddress => present(values.address, "address");
  const second = (): IpAddress => present(values.secondAddress, "second address");
  const protocol = (): Protocol => protocolWord(present(values.protocolNumber, "protocol"));
  switch (type) {
    case "bitmap:port":
      return portEntry(port());
    case "hash:ip":
      return addressEntry(address());
    case "hash:ip,port":
      return addressPortEntry(address(), protocol(), port());
    case "hash:ip,port,ip":
      return addressPortAddressEntry(address(), protocol(), port(), second());
    case "hash:ip,port,net": {
      const net = second();
      return addressPortNetEntry(
        address(),
        protocol(),
        port(),
        networkOf(net, values.secondPrefixLength),
      );
    }
  }
}

/** Set types of other software whose entries consist of addresses, networks and ports. */
export const comparableType: RegExp =
  /^(?:bitmap:(?:ip|port)|hash:(?:ip|net)(?:,port)?(?:,(?:ip|net))?)$/;

/** Returns an entry of a comparable type as printed by `ipset list`, for example `10.0.0.0/8,tcp:80 nomatch`. */
export function otherEntryText(type: string, values: EntryValues): string {
  const { address, prefixLength, secondAddress, secondPrefixLength, flags = 0 } = values;
  const parts = type.replace(/.*:/, "").split(",");
  const texts = parts.map((part, index) => {
    if (part !== "port")
      return index === 0
        ? netText(present(address, "address"), prefixLength)
        : netText(present(secondAddress, "second address"), secondPrefixLength);
    const port = String(present(values.port, "port"));
    if (type === "bitmap:port") return port;
    return `${protocolWord(present(values.protocolNumber, "protocol")).toLowerCase()}:${port}`;
  });
  return `${texts.join(",")}${(flags & noMatchFlag) === 0 ? "" : " nomatch"}`;
}

function netText(address: IpAddress, prefixLength: number | undefined): string {
  const net = networkOf(address, prefixLength);
  return net.prefixLength === hostPrefixLength(familyOf(address)) ? net.address : cidrText(net);
}

/** The network without host bits, as the kernel prints it. */
function networkOf(
  address: IpAddress,
  prefixLength: number = hostPrefixLength(familyOf(address)),
): Cidr {
  const network = parseCidr(`${address}/${prefixLength}`);
  if (network === undefined) throw new DecodeError(`prefix length ${prefixLength}`, 0);
  return network;
}

function checkPort(entry: SetEntry, port: number): number {
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new RangeError(`The port of entry ${entry} is not between 0 and 65535`);
}

/**
 * Third parties may have added entries with protocols that IPVS does not support. Such a protocol is written as a
 * number (`10.0.0.1,136:80`), so that the entry can be removed.
 */
function protocolWord(number: number): Protocol {
  return protocolOfNumber(number) ?? (String(number) as Protocol);
}

function numberOfProtocol(entry: SetEntry, protocol: Protocol): number {
  const number = protocolNumbers[protocol] ?? Number(protocol);
  if (Number.isInteger(number) && number >= 0 && number <= 255) return number;
  throw new RangeError(`Entry ${entry} has no protocol`);
}

function present<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new DecodeError(`set entry without ${what}`, 0);
  return value;
}
