import { errorText } from "../../base/error-text.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { NetlinkTransport, type TransportParts } from "../../netlink/transport.ts";
import type { IptablesBackend } from "./backend.ts";
import { readLegacyGeneration } from "./legacy-generation.ts";
import { nftTransportOptions, readNftGeneration } from "./nft-generation.ts";

/** Where one backend's rules are seen to change, without a program. */
export interface RuleGenerations {
  /** As `Iptables.readGeneration`. */
  read(family: IpFamily): Promise<number | undefined>;
  close(): void;
}

export interface GenerationParts extends TransportParts {
  readonly log: Logger;
}

/** What cannot be read is unknown: the rules themselves are read then, and say what is wrong. */
export function openGenerations(backend: IptablesBackend, parts: GenerationParts): RuleGenerations {
  if (backend === "legacy") {
    const read = async (family: IpFamily): Promise<number> => readLegacyGeneration(family);
    return { read: unlessUnreadable(read, parts.log), close() {} };
  }
  const transport = new NetlinkTransport(parts, nftTransportOptions);
  return {
    read: unlessUnreadable(() => readNftGeneration(transport), parts.log),
    close: () => transport.close(),
  };
}

/** Logged once: each check starts two programs from then on, and nobody would know why. */
function unlessUnreadable(
  read: (family: IpFamily) => Promise<number | undefined>,
  log: Logger,
): RuleGenerations["read"] {
  const reported = new Set<IpFamily>();
  return async (family) => {
    try {
      return await read(family);
    } catch (error) {
      const keys = { ipFamily: family, err: errorText(error) };
      if (!reported.has(family))
        log.info("Cannot detect rule changes cheaply, falling back to iptables-save", keys);
      reported.add(family);
      return undefined;
    }
  };
}
