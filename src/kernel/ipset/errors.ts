/** ipset error numbers that errno(3) does not define: linux/netfilter/ipset/ip_set.h. Pure. */

interface IpSetErrorRow {
  /** The constant's name in the kernel's header. */
  readonly code: string;
  /** What the error means for this request and what the operator can do. */
  readonly meaning: string;
}

const rows: Readonly<Record<number, IpSetErrorRow>> = {
  4097: {
    code: "IPSET_ERR_PROTOCOL",
    meaning: "the entry has the wrong address family, or the kernel does not support the request",
  },
  4098: {
    code: "IPSET_ERR_FIND_TYPE",
    meaning: "the kernel does not know the set type; its module (ip_set_…) is missing",
  },
  4099: { code: "IPSET_ERR_MAX_SETS", meaning: "the network namespace already has 65,534 sets" },
  4100: {
    code: "IPSET_ERR_BUSY",
    meaning: "a rule or another set references the set; remove that reference first",
  },
  4101: { code: "IPSET_ERR_EXIST_SETNAME2", meaning: "the second set does not exist" },
  4102: {
    code: "IPSET_ERR_TYPE_MISMATCH",
    meaning: "the sets are of different types or families",
  },
  4103: {
    code: "IPSET_ERR_EXIST",
    meaning: "the entry to add exists, or the one to remove does not",
  },
  4104: { code: "IPSET_ERR_INVALID_CIDR", meaning: "the prefix length is out of range" },
  4105: { code: "IPSET_ERR_INVALID_NETMASK", meaning: "the netmask is out of range" },
  4106: { code: "IPSET_ERR_INVALID_FAMILY", meaning: "the set type does not support this family" },
  4107: { code: "IPSET_ERR_TIMEOUT", meaning: "the set was created without timeouts" },
  4108: { code: "IPSET_ERR_REFERENCED", meaning: "a rule references the set" },
  4109: { code: "IPSET_ERR_IPADDR_IPV4", meaning: "the set contains IPv4 addresses" },
  4110: { code: "IPSET_ERR_IPADDR_IPV6", meaning: "the set contains IPv6 addresses" },
  4353: {
    code: "IPSET_ERR_HASH_ELEM",
    meaning: "the entry is all zeros, which hash sets do not accept",
  },
  4354: { code: "IPSET_ERR_INVALID_PROTO", meaning: "the set type does not support this protocol" },
  4355: { code: "IPSET_ERR_MISSING_PROTO", meaning: "the entry has no protocol" },
  4356: {
    code: "IPSET_ERR_HASH_RANGE_UNSUPPORTED",
    meaning: "the set type does not support ranges",
  },
  4357: { code: "IPSET_ERR_HASH_RANGE", meaning: "the range is not valid" },
};

/** Error numbers from 4352 on are specific to the set type. Number 4352 itself has two meanings. */
const firstTypeSpecific = 4352;

const hashFull: IpSetErrorRow = {
  code: "IPSET_ERR_HASH_FULL",
  meaning: "the set is full (maxelem)",
};

const bitmapRange: IpSetErrorRow = {
  code: "IPSET_ERR_BITMAP_RANGE",
  meaning: "the port is outside the set's range",
};

/** Errors from errno(3) that have a special meaning for sets. */
const plainMeanings: Readonly<Record<number, string>> = {
  2: "the set does not exist",
  17: "a set with this name but a different type, family or maxelem exists; destroy or rename it",
};

/** Names and explains an error number for a request about sets of `type`, to be used in a `Description`. */
export function ipSetErrorWords(
  errno: number,
  type: string,
): { readonly code?: string; readonly meaning?: string } {
  if (errno === firstTypeSpecific) return type.startsWith("bitmap:") ? bitmapRange : hashFull;
  const meaning = plainMeanings[errno];
  return rows[errno] ?? (meaning === undefined ? {} : { meaning });
}
