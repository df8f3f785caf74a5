/** The kernel rejects netlink requests of one family; see netlink-fault.c. */
import { endFaults, putUnderFaults, rejectedRequests, rejectRequests } from "../netlink-fault.ts";
import type { Row } from "../row.ts";

/** linux/netlink.h, linux/netfilter/nfnetlink.h */
const families = {
  IPVS: { protocol: 16, subsystem: -1 },
  ipset: { protocol: 12, subsystem: 6 },
  conntrack: { protocol: 12, subsystem: 1 },
  rtnetlink: { protocol: 0, subsystem: -1 },
} as const;
const errnos = { ENOMEM: 12, EBUSY: 16, EPERM: 1, ENOBUFS: 105 } as const;
const percent = 30;

function refuse(family: keyof typeof families, errno: keyof typeof errnos): Row["inject"] {
  return async (node) => {
    rejectRequests({ ...families[family], errno: errnos[errno], percent });
    try {
      await node.churn();
      await node.until(`${family} was rejected with ${errno}`, async () => {
        if (rejectedRequests() > 0) return true;
        // If all of the step's requests in this family happened to succeed, another step follows.
        if (node.isRepaired()) await node.churn();
        return false;
      });
      await node.churn();
    } finally {
      endFaults();
    }
    return `${rejectedRequests()} requests rejected`;
  };
}

/** The short form tests two errnos with each family, and two families with each errno. */
export const netlink: readonly Row[] = (Object.keys(families) as (keyof typeof families)[]).flatMap(
  (family, familyIndex) =>
    (Object.keys(errnos) as (keyof typeof errnos)[]).map(
      (errno, errnoIndex): Row => ({
        name: `${errno} from ${family}`,
        short: (familyIndex + errnoIndex) % 2 === 0 ? 1 : 0,
        long: 5,
        inject: refuse(family, errno),
        before: putUnderFaults,
      }),
    ),
);
