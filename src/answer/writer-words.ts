/** Names rules and sets after the programs or the kernel interface that writes them. Pure. */

interface WriterWords {
  /** Precedes "chains and jumps". */
  readonly rules: "iptables" | "nf_tables";
  readonly set: "ipset" | "set";
}

/** `backend`: the iptables backend, or `nftables` for rules without iptables. Undefined if none is known. */
export function writerWords(backend: string | undefined): WriterWords {
  return backend === "nftables"
    ? { rules: "nf_tables", set: "set" }
    : { rules: "iptables", set: "ipset" };
}
