import { readFileSync } from "node:fs";

/** Bit numbers from linux/capability.h. */
const capabilityBits = { NET_ADMIN: 12n, NET_RAW: 13n } as const;

/** The process lacks a capability that it needs. */
export class MissingCapabilityError extends Error {
  override readonly name = "MissingCapabilityError";

  constructor() {
    super(
      "Cannot change the node's network: missing capability NET_ADMIN; run as root, " +
        "or in a container with securityContext.capabilities.add: [NET_ADMIN, NET_RAW]",
    );
  }
}

/**
 * Throws {@link MissingCapabilityError} unless CAP_NET_ADMIN is in the effective set, `CapEff` in /proc/self/status.
 */
export function checkCapabilities(
  readStatus: () => string = () => readFileSync("/proc/self/status", "utf8"),
): void {
  // If /proc has no capability set, the first kernel request fails instead.
  const missing = missingCapabilities(readStatus(), ["NET_ADMIN"]) ?? [];
  if (missing.length > 0) throw new MissingCapabilityError();
}

/**
 * The required capabilities that are missing from the effective set, `CapEff` in /proc/self/status. Undefined if
 * `status` has no such line.
 */
export function missingCapabilities(
  status: string,
  needed: readonly (keyof typeof capabilityBits)[],
): readonly string[] | undefined {
  const digits = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  if (digits === undefined) return undefined;
  const effective = BigInt(`0x${digits}`);
  return needed.filter((name) => ((effective >> capabilityBits[name]) & 1n) === 0n);
}
