/**
 * Decodes the real servers of a GET_DEST reply into numbers, and compares them with a cached list before converting any
 * address to a string. A large cluster has hundreds of thousands of real servers, and nearly all are unchanged.
 * linux/ip_vs.h.
 */
import { copyIpAddress, familyOf, type IpFamily, ipAddressFromBytes } from "../../base/ip.ts";
import { TYPE_MASK } from "../../netlink/attribute-field.ts";
import type { ByteReader } from "../../netlink/byte-reader.ts";
import { DecodeError } from "../../netlink/errors.ts";
import { readGenericHeader } from "../../netlink/generic.ts";
import { ATTRIBUTE_HEADER_BYTES } from "../../netlink/message.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import { limitOf, type RealServer, sameRealServers } from "../../state/real-server.ts";
import { commands, FORWARDING_MASK } from "./constants.ts";

/** IPVS_DEST_ATTR_*. The attributes after the address family are counts, statistics and tunnel options. */
const attributes = {
  address: 1,
  port: 2,
  forwardingMethod: 3,
  weight: 4,
  upperThreshold: 5,
  lowerThreshold: 6,
  addressFamily: 11,
} as const;

/** 32-bit words per real server: address (4), family, port, forwarding method, weight, both thresholds. */
const WORDS = 10;
const [FAMILY, PORT, METHOD, WEIGHT, UPPER, LOWER] = [4, 5, 6, 7, 8, 9] as const;
const firstRoom = 64;

/** One instance is reused for all replies. */
export class ListedRealServers {
  #words = new Uint32Array(firstRoom * WORDS);
  #count = 0;
  readonly #bytes = new Uint8Array(16);
  readonly #view = new DataView(this.#bytes.buffer);

  /** Replaces the contents with the messages of a reply about a virtual server of `family`. Throws DecodeError. */
  read(bodies: readonly ByteReader[], family: IpFamily): void {
    this.#count = bodies.length;
    if (this.#count * WORDS > this.#words.length)
      this.#words = new Uint32Array(2 * this.#count * WORDS);
    for (const [index, body] of bodies.entries()) this.#readOne(body, index * WORDS, family);
  }

  /** Whether `servers` equals the decoded real servers, in any order. */
  areSame(servers: readonly RealServer[]): boolean {
    if (servers.length !== this.#count) return false;
    const last = this.#count - 1;
    return (
      servers.every((server, index) => this.#isSame(server, index)) ||
      // The kernel lists the newest real server first.
      servers.every((server, index) => this.#isSame(server, last - index)) ||
      sameRealServers(servers, this.toList())
    );
  }

  toList(): readonly RealServer[] {
    return Array.from({ length: this.#count }, (_, index) => this.#toRealServer(index * WORDS));
  }

  #readOne(body: ByteReader, at: number, serverFamily: IpFamily): void {
    const words = this.#words;
    const command = readGenericHeader(body);
    if (command !== commands.newDestination)
      throw new DecodeError(`IPVS command ${command} instead of a real server`, body.offset);
    body.skip(ATTRIBUTE_HEADER_BYTES, "destination");
    words[at + FAMILY] = addressFamilies[serverFamily];
    words[at + UPPER] = 0;
    words[at + LOWER] = 0;
    let seen = 0;
    while (body.remaining > 0 && seen < allSeen) {
      const length = body.u16("attribute length") - ATTRIBUTE_HEADER_BYTES;
      const type = body.u16("attribute type") & TYPE_MASK;
      if (length < 0) throw new DecodeError(`attribute ${type} without a length`, body.offset);
      const end = body.offset + length;
      seen |= this.#readAttribute(body, type, at);
      if (end < body.offset)
        throw new DecodeError(`attribute ${type} of ${length} bytes`, body.offset);
      body.skip(end - body.offset, "attribute");
      body.align();
    }
    if ((seen & needed) !== needed)
      throw new DecodeError("real server: attribute missing", body.offset);
    const family = words[at + FAMILY];
    if (family !== addressFamilies.IPv4 && family !== addressFamilies.IPv6)
      throw new DecodeError(`address family ${family}`, body.offset);
  }

  /** Returns the bit of the attribute, or 0 if the attribute is ignored. */
  #readAttribute(body: ByteReader, type: number, at: number): number {
    const words = this.#words;
    switch (type) {
      case attributes.address:
        for (let word = 0; word < 4; word += 1) words[at + word] = body.u32be("address");
        return 1;
      case attributes.port:
        words[at + PORT] = body.u16be("port");
        return 2;
      case attributes.forwardingMethod:
        words[at + METHOD] = body.u32("forwarding method") & FORWARDING_MASK;
        return 4;
      case attributes.weight:
        words[at + WEIGHT] = body.u32("weight");
        return 8;
      case attributes.upperThreshold:
        words[at + UPPER] = body.u32("upper threshold");
        return 32;
      case attributes.lowerThreshold:
        words[at + LOWER] = body.u32("lower threshold");
        return 64;
      case attributes.addressFamily: {
        // Can differ from the virtual server's family for tunnels; older kernels send 0.
        const family = body.u16("address family");
        if (family !== 0) words[at + FAMILY] = family;
        return 16;
      }
      default:
        return 0;
    }
  }

  #isSame(server: RealServer, index: number): boolean {
    const at = index * WORDS;
    const words = this.#words;
    return (
      words[at + PORT] === server.port &&
      words[at + WEIGHT] === server.weight &&
      words[at + METHOD] === server.forwardingMethod &&
      words[at + UPPER] === (server.limit?.upper ?? 0) &&
      words[at + LOWER] === (server.limit?.lower ?? 0) &&
      this.#isSameAddress(server, at)
    );
  }

  #isSameAddress({ address }: RealServer, at: number): boolean {
    const words = this.#words;
    if (words[at + FAMILY] !== addressFamilies[familyOf(address)]) return false;
    copyIpAddress(address, this.#bytes);
    const count = words[at + FAMILY] === addressFamilies.IPv4 ? 1 : 4;
    for (let word = 0; word < count; word += 1) {
      if (this.#view.getUint32(4 * word) !== words[at + word]) return false;
    }
    return true;
  }

  #toRealServer(at: number): RealServer {
    const words = this.#words.subarray(at, at + WORDS);
    for (let word = 0; word < 4; word += 1) this.#view.setUint32(4 * word, words[word] ?? 0);
    const width = words[FAMILY] === addressFamilies.IPv4 ? 4 : 16;
    return {
      address: ipAddressFromBytes(this.#bytes.subarray(0, width)),
      port: words[PORT] ?? 0,
      weight: words[WEIGHT] ?? 0,
      forwardingMethod: words[METHOD] ?? 0,
      ...limitOf(words[UPPER] ?? 0, words[LOWER] ?? 0),
    };
  }
}

const needed = 1 | 2 | 4 | 8;
const allSeen = needed | 16 | 32 | 64;
