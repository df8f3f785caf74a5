/** The links that receive tunneled packets, over rtnetlink. */

import { errno } from "../../base/errno.ts";
import { type IpAddress, type IpFamily, ipFamilies } from "../../base/ip.ts";
import { orElse } from "../../base/or-else.ts";
import { bytes, ipAddress, text, u32 } from "../../netlink/attribute-field.ts";
import { attributeSet, nested, writeAttribute } from "../../netlink/attribute-set.ts";
import {
  type Description,
  isAlreadyExists,
  isUnsupported,
  NetlinkError,
} from "../../netlink/errors.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import { messageFlags, protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import { tunnelLinks } from "../../state/tunnel-link.ts";
import type { Modules, Sysctl, TunnelLinks } from "../kernel.ts";
import { decodeLink, writeLinkHeader } from "./codec.ts";
import { hostScope, messageTypes } from "./constants.ts";
import { findLink, linkRequestKind, listLinksKind, meaningOf } from "./requests.ts";
import { changeTunnelRouting } from "./tunnel-routing.ts";

interface TunnelRequest {
  readonly operation: "create" | "set" | "address";
  readonly name: string;
  readonly kind: string;
  readonly index: number;
}

/** IFLA_IPTUN_COLLECT_METADATA (`ip link … external`): the link receives packets from and to all addresses. */
const linkInfo = attributeSet({
  name: text(3),
  info: nested(
    18,
    attributeSet({ kind: text(1), data: nested(2, attributeSet({ external: bytes(19) })) }),
  ),
});

/** IFLA_AF_SPEC, AF_INET, IFLA_INET_CONF, IPV4_DEVCONF_RP_FILTER. */
const ipv4Settings = attributeSet({
  families: nested(
    26,
    attributeSet({
      ipv4: nested(2, attributeSet({ settings: nested(1, attributeSet({ rpFilter: u32(8) })) })),
    }),
  ),
});

/**
 * Loose reverse path filter. A strict one would drop all packets: clients are not reachable through the tunnel. On
 * Enterprise Linux, udev sets a strict one shortly after a link was created (net.ipv4.conf.*.rp_filter in
 * 50-redhat.conf), so it is checked each time.
 */
const loose = 2;
const upFlag = 1;
/**
 * An address for the IPv4 link. On a link without an address, even a loose reverse path filter drops all packets
 * (`fib_validate_source` in the kernel). Like all loopback addresses, this one is already local.
 */
const placeholder = "127.80.73.80" as IpAddress;

const requestKind: RequestKind<TunnelRequest> = {
  type: ({ operation }) => requestTypes[operation],
  flags: ({ operation }) =>
    operation === "set" ? 0 : messageFlags.create | messageFlags.exclusive,
  /** The same requests as `ip link add … external`, `ip link set … up` and `ip address add … scope host`. */
  encode(writer, { operation, name, kind, index }) {
    if (operation === "create") {
      writeLinkHeader(writer, 0);
      linkInfo.encode(writer, { name, info: { kind, data: { external: new Uint8Array() } } });
    } else if (operation === "set") {
      writer.zeros(4);
      writer.u32(index);
      writer.u32(upFlag);
      writer.u32(upFlag);
      ipv4Settings.encode(writer, { families: { ipv4: { settings: { rpFilter: loose } } } });
    } else {
      for (const byte of [addressFamilies.IPv4, 32, 0, hostScope]) writer.u8(byte);
      writer.u32(index);
      writeAttribute(writer, ipAddress(1), placeholder);
      writeAttribute(writer, ipAddress(2), placeholder);
    }
  },
  describe: ({ operation, name }, number): Description => ({
    operation: operation === "address" ? "add an address to link" : `${operation} link`,
    subject: name,
    ...meaningOf(meanings, number),
  }),
};

const requestTypes = {
  create: messageTypes.newLink,
  set: messageTypes.setLink,
  address: messageTypes.newAddress,
} as const;

const meanings: ReadonlyMap<number, string> = new Map([
  [errno.EOPNOTSUPP, "the kernel has no such tunnels: run modprobe ipip ip6_tunnel on the node"],
  [errno.EEXIST, "another link receives all packets of this kind"],
  [errno.EPERM, "kube-ipvs needs CAP_NET_ADMIN"],
]);

interface TunnelLinksDependencies extends TransportDependencies {
  readonly modules: Pick<Modules, "load">;
  readonly sysctl: Pick<Sysctl, "read">;
}

/** Opens a socket; throws NetlinkError. */
export class TunnelLinksClient implements TunnelLinks {
  readonly #modules: TunnelLinksDependencies["modules"];
  readonly #sysctl: TunnelLinksDependencies["sysctl"];
  readonly #transport: NetlinkTransport;

  constructor({ modules, sysctl, ...parts }: TunnelLinksDependencies) {
    this.#modules = modules;
    this.#sysctl = sysctl;
    this.#transport = new NetlinkTransport(parts, { protocol: protocols.route, strictCheck: true });
  }

  async ensure(family: IpFamily): Promise<void> {
    await this.#ensureLink(family);
    await changeTunnelRouting(this.#transport, "add", family);
  }

  async #ensureLink(family: IpFamily): Promise<void> {
    const { name, kind } = tunnelLinks[family];
    const found = await findLink(this.#transport, name);
    if (found !== undefined && found.kind !== kind)
      throw new NetlinkError({
        ...{ operation: "use link", subject: name, errno: errno.EEXIST },
        meaning: `it is not an ${kind} link: remove it with ip link delete ${name}`,
      });
    if (found?.isUp === true && (family === "IPv6" || this.#isLoose(name))) return;
    if (found === undefined) await this.#create({ operation: "create", name, kind, index: 0 });
    const { index = 0 } = found ?? (await findLink(this.#transport, name)) ?? {};
    const request: TunnelRequest = { operation: "address", name, kind, index };
    if (family === "IPv4")
      await orElse(this.#transport.request(requestKind, request), isAlreadyExists, undefined);
    await this.#transport.request(requestKind, { operation: "set", name, kind, index });
  }

  async remove(family: IpFamily): Promise<void> {
    const { name, kind } = tunnelLinks[family];
    const found = await findLink(this.#transport, name);
    if (found?.kind === kind) {
      const { index } = found;
      await this.#transport.request(linkRequestKind, { operation: "remove", name, index });
    }
    await changeTunnelRouting(this.#transport, "remove", family);
  }

  async listOthers(): Promise<readonly string[]> {
    const links = await this.#transport.dump(listLinksKind, undefined, decodeLink);
    const ours = ipFamilies.map((family) => tunnelLinks[family]);
    return links
      .filter((link) => link.isUp && ours.some(({ kind }) => kind === link.kind))
      .map(({ name }) => name)
      .filter((name) => ours.every((one) => one.name !== name));
  }

  close(): void {
    this.#transport.close();
  }

  #isLoose(name: string): boolean {
    return this.#sysctl.read(`net/ipv4/conf/${name}/rp_filter`) === String(loose);
  }

  async #create(request: TunnelRequest): Promise<void> {
    try {
      await this.#transport.request(requestKind, request);
    } catch (error) {
      if (!isUnsupported(error)) throw error;
      await this.#modules.load(request.kind === "ipip" ? "ipip" : "ip6_tunnel");
      await this.#transport.request(requestKind, request);
    }
  }
}
