import { readFileSync } from "node:fs";

/** Bit number of linux/capability.h. */
const netAdminBit = 12n;

/** The process may not do what its work needs. */
export class MissingCapabilityError extends Error {
  override readonly name = "MissingCapabilityError";

  constructor() {
    super(
      "Cannot change the node's network: missing capability NET_ADMIN; run as root, " +
        "or in a container with securityContext.capabilities.add: [NET_ADMIN, NET_RAW]",
    );
  }
}

/** Throws {@link MissingCapabilityError} unless CAP_NET_ADMIN is in the effective set, `CapEff` in /proc/self/status. */
export function checkCapabilities(
  readStatus: () => string = () => readFileSync("/proc/self/status", "utf8"),
): void {
  const digits = /^CapEff:\s*([0-9a-f]+)$/m.exec(readStatus())?.[1];
  // Where /proc does not say it, the kernel will.
  if (digits === undefined) return;
  if (((BigInt(`0x${digits}`) >> netAdminBit) & 1n) === 0n) throw new MissingCapabilityError();
}
