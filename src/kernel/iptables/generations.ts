import type { IpFamily } from "../../base/ip.ts";
import { openTransport, type TransportParts } from "../../netlink/transport.ts";
import type { IptablesBackend } from "./backend.ts";
import { readLegacyGeneration } from "./legacy-generation.ts";
import { nftTransportOptions, readNftGeneration } from "./nft-generation.ts";

/** Where one back end's rules are seen to change, without a program. */
export interface RuleGenerations {
  /** As `Iptables.readGeneration`. */
  read(family: IpFamily): Promise<number | undefined>;
  close(): void;
}

/** What cannot be read cannot be told: the rules themselves are read then, and say what is wrong. */
export function openGenerations(backend: IptablesBackend, parts: TransportParts): RuleGenerations {
  if (backend === "legacy") {
    return { read: async (family) => readLegacyGeneration(family), close() {} };
  }
  const transport = openTransport(parts, nftTransportOptions);
  return {
    read: () => readNftGeneration(transport).catch(() => undefined),
    close: () => transport.close(),
  };
}
