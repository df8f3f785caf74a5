import { errno } from "../../base/errno.ts";
import {
  familyOf,
  hostPrefixLength,
  type IpAddress,
  type IpFamily,
  ipFamilies,
} from "../../base/ip.ts";
import { orElse } from "../../base/or-else.ts";
import { isAlreadyExists, isNotFound, isUnsupported, NetlinkError } from "../../netlink/errors.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { FailedRequest } from "../../netlink/request.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import { dummyLinkName, type VirtualAddresses } from "../../state/dummy-link.ts";
import type { AddressChange, DummyLink, FailedChange, Modules, NodeAddress } from "../kernel.ts";
import {
  type BindingRequest,
  bindingRequestKind,
  decodeLocalRoute,
  isBindingDone,
  listLocalRoutesKind,
} from "./binding.ts";
import { decodeAddress } from "./codec.ts";
import { LinkWatch } from "./link-watch.ts";
import {
  findLink,
  type LinkRequest,
  linkRequestKind,
  listAddressesKind,
  listRoutesKind,
} from "./requests.ts";
import { decodeGateways } from "./route-messages.ts";

/** A link with our name that is not a dummy link. It is neither used nor removed. */
export class LinkKindError extends Error {
  readonly link: string;
  readonly kind: string;

  constructor(link: string, kind: string) {
    super(
      `Cannot use link ${link}: it is ${kind}, not a dummy link ` +
        `(remove it with ip link delete ${link}, or rename it)`,
    );
    this.name = "LinkKindError";
    this.link = link;
    this.kind = kind;
  }
}

export interface DummyLinkDependencies extends TransportDependencies {
  /** Loads the dummy driver if the kernel does not load it automatically. */
  readonly modules: Pick<Modules, "load">;
  /** Defaults to addresses. */
  readonly virtualAddresses?: VirtualAddresses;
}

/** From this number of writes on, pausing the link watches is cheaper than processing their notifications. */
const pauseWatchesFrom = 100;

/** Manages the dummy link over rtnetlink. The link need not exist. Opens a socket; throws NetlinkError. */
export class DummyLinkClient implements DummyLink {
  readonly name: string = dummyLinkName;
  readonly #parts: DummyLinkDependencies;
  readonly #transport: NetlinkTransport;
  readonly #watches = new Set<LinkWatch>();
  /** Whether an earlier run may have bound virtual IPs in the form that is not configured. */
  #hasOtherForm = true;

  constructor(parts: DummyLinkDependencies) {
    this.#parts = parts;
    // Strict checking makes route dumps return only the requested table.
    const options = { protocol: protocols.route, strictCheck: true };
    this.#transport = new NetlinkTransport(parts, options);
  }

  async find(): Promise<{ readonly index: number } | undefined> {
    const link = await findLink(this.#transport, this.name);
    if (link === undefined) return undefined;
    if (link.kind === "dummy") return { index: link.index };
    throw new LinkKindError(this.name, link.kind ?? "a device");
  }

  async ensure(): Promise<{ readonly index: number; readonly wasCreated: boolean }> {
    const found = await this.find();
    if (found !== undefined) return { ...found, wasCreated: false };
    const wasCreated = await this.#create();
    const created = await this.find();
    if (created !== undefined) return { ...created, wasCreated };
    throw new NetlinkError({ operation: "create link", subject: this.name, errno: errno.ENODEV });
  }

  async remove(): Promise<void> {
    const found = await this.find();
    if (found !== undefined) await this.#removeLink(found.index);
    await this.#removeAll("route", await this.#listLocalRoutes());
  }

  async #removeLink(index: number): Promise<void> {
    const request: LinkRequest = { operation: "remove", name: this.name, index };
    await orElse(this.#transport.request(linkRequestKind, request), isNotFound, undefined);
  }

  async listAddresses(): Promise<readonly NodeAddress[]> {
    const addresses = await this.#listRealAddresses();
    if (!this.#hasRoutes && !this.#hasOtherForm) return addresses;
    const found = await findLink(this.#transport, this.name);
    if (found?.kind !== "dummy") return addresses;
    const routes = await this.#listLocalRoutes();
    const header = { prefixLength: hostPrefixLength("IPv4"), linkIndex: found.index };
    return [...addresses, ...routes.map((address) => ({ address, ...header }))];
  }

  async removeOtherForm(): Promise<number> {
    const found = await this.find();
    const others = this.#hasRoutes
      ? (await this.#listRealAddresses())
          .filter(({ linkIndex, address }) => linkIndex === found?.index && isIpv4(address))
          .map(({ address }) => address)
      : await this.#listLocalRoutes();
    const failed = await this.apply(others.map((address) => ({ kind: "address-add", address })));
    if (failed[0] !== undefined) throw failed[0].error;
    await this.#removeAll(this.#otherForm, others, found?.index);
    this.#hasOtherForm = false;
    return others.length;
  }

  async listGateways(): Promise<readonly IpAddress[]> {
    const gateways = new Set<IpAddress>();
    for (const family of ipFamilies) {
      for (const address of await this.#gatewaysOf(family)) gateways.add(address);
    }
    return [...gateways];
  }

  async apply(changes: readonly AddressChange[]): Promise<readonly FailedChange[]> {
    if (changes.length === 0) return [];
    const found = await this.find();
    if (found === undefined) return this.#failAdditions(changes);
    const requests = changes.map((change) => this.#bindingRequest(change, found.index));
    const failed = await this.#write(requests);
    await this.#removeInOtherForm(requests, found.index);
    return failed;
  }

  watch(onChange: () => void, onError: (error: Error) => void): () => void {
    const watch = new LinkWatch(this.#parts, { onChange, onError });
    this.#watches.add(watch);
    return () => {
      this.#watches.delete(watch);
      watch.close();
    };
  }

  close(): void {
    this.#transport.close();
  }

  /**
   * Also removes virtual IPs in the form that is not configured, which an operator or an earlier run may have added.
   */
  async #removeInOtherForm(requests: readonly BindingRequest[], linkIndex: number): Promise<void> {
    if (!this.#hasRoutes && !this.#hasOtherForm) return;
    const removed = requests.filter(({ kind, address }) => kind === "remove" && isIpv4(address));
    const addresses = removed.map(({ address }) => address);
    await this.#removeAll(this.#otherForm, addresses, linkIndex);
  }

  /** Rejects with the error of the first rejected removal. */
  async #removeAll(
    form: BindingRequest["form"],
    addresses: readonly IpAddress[],
    linkIndex = 0,
  ): Promise<number> {
    const request = { kind: "remove", form, linkName: this.name, linkIndex } as const;
    const [failed] = await this.#write(addresses.map((address) => ({ ...request, address })));
    if (failed !== undefined) throw failed.error;
    return addresses.length;
  }

  get #hasRoutes(): boolean {
    return this.#parts.virtualAddresses === "routes";
  }

  get #otherForm(): BindingRequest["form"] {
    return this.#hasRoutes ? "address" : "route";
  }

  #listRealAddresses(): Promise<readonly NodeAddress[]> {
    return this.#transport.dump(listAddressesKind, undefined, decodeAddress);
  }

  /** A network namespace that never had an address has no local table, so ENOENT means that there are no routes. */
  async #listLocalRoutes(): Promise<readonly IpAddress[]> {
    const routes = this.#transport.dump(listLocalRoutesKind, undefined, decodeLocalRoute);
    return await orElse(routes, isNotFound, []);
  }

  /** Returns the rejected requests. Pauses the link watches during large writes. */
  async #write(requests: readonly BindingRequest[]): Promise<readonly FailedRequest[]> {
    if (requests.length === 0) return [];
    const pausedWatches = requests.length < pauseWatchesFrom ? [] : [...this.#watches];
    for (const watch of pausedWatches) watch.pause();
    try {
      const failed = await this.#transport.batch(bindingRequestKind, requests);
      return failed.filter(
        ({ index, error }) => !isBindingDone(requests[index] as BindingRequest, error.errno),
      );
    } finally {
      for (const watch of pausedWatches) watch.resume();
    }
  }

  /** A network namespace that never had a route has no main table, so ENOENT means that there are no gateways. */
  async #gatewaysOf(family: IpFamily): Promise<readonly IpAddress[]> {
    const gateways = this.#transport.dump(listRoutesKind, family, decodeGateways);
    const isNone = (error: unknown): boolean => isNotFound(error) || isUnsupported(error);
    return (await orElse(gateways, isNone, [])).flat();
  }

  /** Returns false if other software created the link at the same time. */
  async #create(): Promise<boolean> {
    const request: LinkRequest = { operation: "create", name: this.name };
    const created = this.#createOrLoad(request).then(() => true);
    return await orElse(created, isAlreadyExists, false);
  }

  async #createOrLoad(request: LinkRequest): Promise<void> {
    try {
      await this.#transport.request(linkRequestKind, request);
    } catch (error) {
      if (!isUnsupported(error)) throw error;
      await this.#parts.modules.load("dummy");
      await this.#transport.request(linkRequestKind, request);
    }
  }

  #failAdditions(changes: readonly AddressChange[]): readonly FailedChange[] {
    return changes.flatMap((change, index) => {
      if (change.kind === "address-remove") return [];
      const { operation, subject } = bindingRequestKind.describe(
        this.#bindingRequest(change, 0),
        errno.ENODEV,
      );
      const meaning = "the link does not exist";
      return [
        { index, error: new NetlinkError({ operation, subject, errno: errno.ENODEV, meaning }) },
      ];
    });
  }

  #bindingRequest(change: AddressChange, linkIndex: number): BindingRequest {
    const { address } = change;
    const kind = change.kind === "address-add" ? "add" : "remove";
    const form = this.#hasRoutes && isIpv4(address) ? "route" : "address";
    return { kind, form, address, linkName: this.name, linkIndex };
  }
}

function isIpv4(address: IpAddress): boolean {
  return familyOf(address) === "IPv4";
}
