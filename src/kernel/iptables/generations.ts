import { errorText } from "../../base/error-text.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import { readNftGeneration } from "../nftables/generation.ts";
import { nftTransportOptions } from "../nftables/message.ts";
import type { IptablesBackend } from "./backend.ts";
import { readLegacyGeneration } from "./legacy-generation.ts";

/** Detects changes to one backend's rules without running a program. */
export interface RuleGenerations {
  /** See `Iptables.readGeneration`. */
  read(family: IpFamily): Promise<number | undefined>;
  close(): void;
}

export interface GenerationsDependencies extends TransportDependencies {
  readonly log: Logger;
}

/**
 * If a generation cannot be read, it is undefined. The caller then reads the rules, which reports the underlying error.
 */
export function openGenerations(
  backend: IptablesBackend,
  parts: GenerationsDependencies,
): RuleGenerations {
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

/** Logs the failure once, because each check starts two programs from then on. */
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
