/** kube-ipvs0 and its addresses. */
import type { AddressChange } from "../../kernel/kernel.ts";
import { absent, added, lost } from "../drift.ts";
import { alone, type Kind, type Kinds } from "./kind.ts";

const address: Kind<AddressChange> = {
  part: "link",
  subject: ({ address: name }) => ({ type: "address", address: name }),
  requestKey: () => "addresses",
  send: (changes, { link }) => link.apply(changes),
  fold: ({ kind, address: name }, { cached: { addresses } }) =>
    kind === "address-add" ? addresses.add(name) : addresses.delete(name),
  drift({ kind, address: name }, { lostLinkAddressCount, addresses }) {
    const wasThere = addresses.get(name);
    // If the link was removed, its addresses are part of the same drift.
    if (lostLinkAddressCount !== undefined || wasThere !== (kind === "address-add")) return [];
    return [{ kind: "address", ...(wasThere ? lost : added) }];
  },
};

export const linkKinds: Kinds<"link-create" | "link-remove" | "address-add" | "address-remove"> = {
  "link-create": {
    part: "link",
    subject: ({ link }) => ({ type: "link", link }),
    send: alone((_, { link }) => link.ensure()),
    fold(_, { cached }) {
      cached.hasLink = true;
    },
    drift: (_, { lostLinkAddressCount: count }) =>
      count === undefined ? [] : [{ kind: "link", before: `${count} addresses`, after: absent }],
  },
  "link-remove": {
    part: "link",
    subject: ({ link }) => ({ type: "link", link }),
    send: alone((_, { link }) => link.remove()),
    fold(_, { cached }) {
      cached.hasLink = false;
    },
  },
  "address-add": address,
  "address-remove": address,
};
