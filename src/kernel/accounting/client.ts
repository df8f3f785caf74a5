import { orElse } from "../../base/or-else.ts";
import { text } from "../../netlink/attribute-field.ts";
import { attributeSet } from "../../netlink/attribute-set.ts";
import { isAlreadyExists, isNotFound } from "../../netlink/errors.ts";
import { writeNetfilterHeader } from "../../netlink/netfilter.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import type { Accounting } from "../kernel.ts";

/**
 * High byte: NFNL_SUBSYS_ACCT. Low byte: NFNL_MSG_ACCT_NEW or NFNL_MSG_ACCT_GET. linux/netfilter/nfnetlink_acct.h.
 */
const messages = { create: 0x700, get: 0x701 } as const;
/** Flags of a creation request: NLM_F_EXCL and NLM_F_CREATE. With these flags, an existing counter keeps its counts. */
const mustBeNew = 0x600;

/** NFACCT_*. */
const counterAttributes = attributeSet({ name: text(1) });

function counterRequest(type: number, flags: number, operation: string): RequestKind<string> {
  return {
    type: () => type,
    flags: () => flags,
    encode(writer, name) {
      writeNetfilterHeader(writer);
      counterAttributes.encode(writer, { name });
    },
    describe: (name) => ({ operation, subject: name }),
  };
}

const createRequest = counterRequest(messages.create, mustBeNew, "create nfacct counter");
const getRequest = counterRequest(messages.get, 0, "look for nfacct counter");

/** Opens a socket. Throws NetlinkError. */
export class AccountingClient implements Accounting {
  readonly #transport: NetlinkTransport;

  constructor(parts: TransportDependencies) {
    this.#transport = new NetlinkTransport(parts, { protocol: protocols.netfilter });
  }

  async ensure(name: string): Promise<void> {
    await orElse(this.#transport.request(createRequest, name), isAlreadyExists, undefined);
  }

  async has(name: string): Promise<boolean> {
    const found = this.#transport.request(getRequest, name, () => true);
    return (await orElse(found, isNotFound, [])).length > 0;
  }

  close(): void {
    this.#transport.close();
  }
}
