import { errno } from "../../base/errno.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import { DecodeError, isAlreadyExists, isNotFound, NetlinkError } from "../../netlink/errors.ts";
import type { Message } from "../../netlink/message.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import { type IpSet, type ObservedIpSet, sameIpSet } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { EntryChange, FailedChange, IpSets } from "../kernel.ts";
import type { CommandValues, ParameterValues } from "./attributes.ts";
import { comparableType, entryText, otherEntryText } from "./entry.ts";
import { groupChanges, type SetMessage, singleChanges } from "./messages.ts";
import { decodeListing, type SetRequest, setRequestKind } from "./requests.ts";

/**
 * ipset over nfnetlink, like the `ipset` program but with many entries per message. Opens a socket; throws
 * NetlinkError.
 */
export class IpSetsClient implements IpSets {
  readonly #transport: NetlinkTransport;

  constructor(parts: TransportDependencies) {
    this.#transport = new NetlinkTransport(parts, { protocol: protocols.netfilter });
  }

  async listSets(): Promise<readonly ObservedIpSet[]> {
    const request: SetRequest = { command: "list" };
    const headers = await this.#transport.dump(setRequestKind, request, decodeListing);
    return headers.map(observedSet);
  }

  async listEntries(set: IpSet): Promise<readonly SetEntry[]> {
    try {
      const request: SetRequest = { command: "list", set };
      const parts = await this.#transport.dump(setRequestKind, request, (message) =>
        entriesOf(set, message),
      );
      return parts.flat();
    } catch (error) {
      if (isNotFound(error)) return [];
      throw error;
    }
  }

  /** The entries of a third-party set, as text. Undefined if packets cannot be compared with this set type. */
  async listOtherEntries(
    set: Pick<ObservedIpSet, "name" | "type">,
  ): Promise<readonly string[] | undefined> {
    if (!comparableType.test(set.type)) return undefined;
    const request: SetRequest = { command: "list", set };
    const listings = await this.#transport.dump(setRequestKind, request, decodeListing);
    const isMasked = listings.some(
      ({ parameters }) => (parameters?.netmask ?? parameters?.bitmask) !== undefined,
    );
    if (isMasked) return undefined;
    return listings.flatMap(({ entries = [] }) =>
      entries.map((entry) => otherEntryText(set.type, entry)),
    );
  }

  async create(set: IpSet): Promise<void> {
    try {
      await this.#transport.request(setRequestKind, { command: "create", set, mustBeNew: true });
    } catch (error) {
      if (!(error instanceof NetlinkError) || !isAlreadyExists(error)) throw error;
      await this.#checkExisting(set, error);
    }
  }

  async destroy(name: string): Promise<void> {
    try {
      await this.#transport.request(setRequestKind, { command: "destroy", name });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  async swap(first: string, second: string): Promise<void> {
    await this.#transport.request(setRequestKind, { command: "swap", first, second });
  }

  /**
   * The kernel stops processing a message at its first invalid entry but still executes the following messages.
   * Therefore a rejected entry and all later changes to its set are resent one by one, so that each has its own reply.
   * If an entry is changed twice, the last change takes effect.
   */
  async apply(changes: readonly EntryChange[]): Promise<readonly FailedChange[]> {
    const { messages, unusable } = groupChanges(changes);
    const rejected = await this.#send(messages);
    if (rejected.length === 0) return unusable;
    const singles = singleChanges(messages, rejected);
    const failed = (await this.#send(singles)).flatMap(({ message, error }) =>
      isGoneAlready(message, error) ? [] : message.indices.map((index) => ({ index, error })),
    );
    return [...unusable, ...failed].sort((one, other) => one.index - other.index);
  }

  close(): void {
    this.#transport.close();
  }

  /**
   * Checks whether an existing set can be used. The kernel compares type, capacity and extensions (with a timeout, our
   * entries would expire), but it does not reject a set of the other family.
   */
  async #checkExisting(set: IpSet, refusal: NetlinkError): Promise<void> {
    await this.#transport.request(setRequestKind, { command: "create", set, mustBeNew: false });
    const present = (await this.listSets()).find(({ name }) => name === set.name);
    if (present !== undefined && !sameIpSet(set, present)) throw refusal;
  }

  async #send(
    messages: readonly SetMessage[],
  ): Promise<readonly { readonly message: SetMessage; readonly error: NetlinkError }[]> {
    const requests = messages.map(({ request }) => request);
    const failed = await this.#transport.batch(setRequestKind, requests);
    return failed.flatMap(({ index, error }) => {
      const message = messages[index];
      return message === undefined ? [] : [{ message, error }];
    });
  }
}

function entriesOf({ type }: IpSet, message: Message): readonly SetEntry[] {
  return (decodeListing(message).entries ?? []).map((entry) => entryText(type, entry));
}

/** Removing an entry also succeeds if its set no longer exists. */
function isGoneAlready({ request }: SetMessage, error: NetlinkError): boolean {
  return request.command === "remove" && error.errno === errno.ENOENT;
}

function observedSet(values: CommandValues): ObservedIpSet {
  const { name, typeName, parameters = {} } = values;
  if (name === undefined || typeName === undefined) {
    throw new DecodeError("set without name or type", 0);
  }
  const family = familyOfNumber(values.family);
  return {
    name,
    type: typeName,
    ...(family === undefined ? {} : { family }),
    maxElements: parameters.maxElements ?? portRange(values),
    references: parameters.references ?? 0,
    elementCount: parameters.elementCount ?? 0,
    ...(hasOptions(parameters) ? { hasOptions: true } : {}),
  };
}

function hasOptions({ timeoutSeconds, optionFlags, netmask }: ParameterValues): boolean {
  return timeoutSeconds !== undefined || (optionFlags ?? 0) !== 0 || netmask !== undefined;
}

function familyOfNumber(number: number | undefined): IpFamily | undefined {
  return ipFamilies.find((family) => addressFamilies[family] === number);
}

/** The number of ports in a bitmap's range; 0 for set types without a range. */
function portRange({ parameters }: CommandValues): number {
  if (parameters?.lastPort === undefined) return 0;
  return parameters.lastPort - (parameters.firstPort ?? 0) + 1;
}
