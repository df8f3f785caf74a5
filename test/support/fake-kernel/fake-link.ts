import { errno } from "../../../src/base/errno.ts";
import {
  familyOf,
  hostPrefixLength,
  type IpAddress,
  parseIpAddress,
} from "../../../src/base/ip.ts";
import type {
  AddressChange,
  DummyLink,
  FailedChange,
  NodeAddress,
} from "../../../src/kernel/kernel.ts";
import type { VirtualAddresses } from "../../../src/state/dummy-link.ts";
import { failureError, type Operation, type Operations } from "./operations.ts";

/** Index of the first created link. The node's own links have lower ones. */
const firstLinkIndex = 10;

/** The dummy link and the node's addresses. */
export class FakeLink implements DummyLink {
  readonly name = "kube-ipvs0";
  readonly #operations: Operations;
  /** Can be set to a different kind, to test a foreign link named kube-ipvs0. */
  kind = "dummy";
  #virtualAddresses: VirtualAddresses = "addresses";
  #hasOtherForm = false;
  #index: number | undefined;
  #nextIndex = firstLinkIndex;
  readonly #bound = new Set<IpAddress>();
  /** Addresses of local routes, which remain if the link is lost. */
  readonly #routes = new Set<IpAddress>();
  #nodeAddresses: readonly NodeAddress[] = standardNodeAddresses;
  /** Gateways in the main routing table. */
  gateways: readonly IpAddress[] = standardGateways;
  readonly #watchers = new Set<() => void>();
  #isNoticePending = false;

  constructor(operations: Operations) {
    this.#operations = operations;
  }

  /** Sets how a new client makes IPv4 virtual IPs local. */
  set virtualAddresses(form: VirtualAddresses) {
    this.#virtualAddresses = form;
    this.#hasOtherForm = true;
  }

  /** Replaces the addresses of the node's other links and notifies the watchers. */
  setNodeAddresses(addresses: readonly NodeAddress[]): void {
    this.#nodeAddresses = addresses;
    this.#notify();
  }

  /** Addresses of the node's other links. */
  peekNode(): readonly NodeAddress[] {
    return this.#nodeAddresses;
  }

  /** The link's addresses in creation order, without injected failures. */
  peek(): readonly IpAddress[] {
    return [...this.#bound];
  }

  /** The addresses of local routes. */
  peekRoutes(): readonly IpAddress[] {
    return [...this.#routes];
  }

  /** Adds or removes an address as another program would. Throws if the kernel would reject it. */
  interfere({ kind, address }: AddressChange): void {
    if (this.#index === undefined) throw new Error(`Cannot find device ${this.name}`);
    if (kind === "address-add") this.#bound.add(address);
    else this.#bound.delete(address);
    this.#notify();
  }

  /** Deletes a local route as another program would. Throws if the kernel would reject it. */
  loseRoute(address: IpAddress): void {
    if (!this.#routes.delete(address)) throw new Error("No such process");
    this.#notify();
  }

  /** Deletes the link as another program would. */
  lose(): void {
    this.#index = undefined;
    this.#bound.clear();
    this.#notify();
  }

  async find(): Promise<{ readonly index: number } | undefined> {
    return this.#operations.read("link", "find", this.name, () => this.#find());
  }

  async ensure(): Promise<{ readonly index: number; readonly wasCreated: boolean }> {
    const found = await this.find();
    if (found !== undefined) return { ...found, wasCreated: false };
    return this.#operations.change(
      { facility: "link", action: "create-link", subject: this.name },
      () => {
        const index = this.#nextIndex;
        this.#nextIndex += 1;
        this.#index = index;
        this.#notify();
        return { index, wasCreated: true };
      },
    );
  }

  async remove(): Promise<void> {
    if ((await this.find()) === undefined && this.#routes.size === 0) return;
    this.#operations.change({ facility: "link", action: "remove-link", subject: this.name }, () => {
      this.lose();
      this.#routes.clear();
    });
  }

  async listAddresses(): Promise<readonly NodeAddress[]> {
    return this.#operations.read("link", "list-addresses", "", () => {
      const linkIndex = this.#index;
      if (linkIndex === undefined) return this.#nodeAddresses;
      const listed =
        this.#hasRoutes || this.#hasOtherForm
          ? [...this.#bound, ...this.#routes]
          : [...this.#bound];
      const bound = listed.map((address) => ({
        address,
        prefixLength: hostPrefixLength(familyOf(address)),
        linkIndex,
      }));
      return [...this.#nodeAddresses, ...bound];
    });
  }

  async removeOtherForm(): Promise<number> {
    const others = this.#hasRoutes
      ? [...this.#bound].filter((address) => familyOf(address) === "IPv4")
      : [...this.#routes];
    await this.apply(others.map((address) => ({ kind: "address-add", address })));
    for (const subject of others) {
      this.#operations.change({ facility: "link", action: "remove-other-form", subject }, () => {
        (this.#hasRoutes ? this.#bound : this.#routes).delete(subject);
        this.#notify();
      });
    }
    this.#hasOtherForm = false;
    return others.length;
  }

  get #hasRoutes(): boolean {
    return this.#virtualAddresses === "routes";
  }

  async listGateways(): Promise<readonly IpAddress[]> {
    return this.#operations.read("link", "list-gateways", "", () => this.gateways);
  }

  async apply(changes: readonly AddressChange[]): Promise<readonly FailedChange[]> {
    return this.#operations.changes(changes, addressOperation, (change) => {
      const { kind, address } = change;
      const isRoute = this.#hasRoutes && familyOf(address) === "IPv4";
      if (kind === "address-remove") {
        this.#bound.delete(address);
        if (isRoute || this.#hasOtherForm) this.#routes.delete(address);
      } else if (this.#index !== undefined) (isRoute ? this.#routes : this.#bound).add(address);
      else throw failureError(addressOperation(change), errno.ENODEV);
      this.#notify();
    });
  }

  watch(onChange: () => void): () => void {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  }

  #find(): { readonly index: number } | undefined {
    if (this.kind !== "dummy") {
      throw new Error(`Cannot use link ${this.name}: it is ${this.kind}, not a dummy link`);
    }
    return this.#index === undefined ? undefined : { index: this.#index };
  }

  /** Notifies once for all changes in a turn, because the client combines the kernel's messages. */
  #notify(): void {
    if (this.#isNoticePending) return;
    this.#isNoticePending = true;
    queueMicrotask(() => {
      this.#isNoticePending = false;
      for (const onChange of this.#watchers) onChange();
    });
  }
}

/** The node in the recorded states: loopback, eth0 with both families, eth1. */
export const standardNodeAddresses: readonly NodeAddress[] = [
  nodeAddress("127.0.0.1", 8, 1),
  nodeAddress("::1", 128, 1),
  nodeAddress("192.168.10.11", 24, 2),
  nodeAddress("fd00:10::11", 64, 2),
  nodeAddress("172.16.5.11", 24, 3),
];

const standardGateways: readonly IpAddress[] = [
  nodeAddress("192.168.10.1", 24, 2).address,
  nodeAddress("fd00:10::1", 64, 2).address,
];

export function nodeAddress(text: string, prefixLength: number, linkIndex: number): NodeAddress {
  const address = parseIpAddress(text);
  if (address === undefined) throw new Error(`No address: ${text}`);
  return { address, prefixLength, linkIndex };
}

function addressOperation({ kind, address }: AddressChange): Operation {
  return { facility: "link", action: kind, subject: address };
}
