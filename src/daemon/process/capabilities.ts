import { readFileSync } from "node:fs";

/** Bit numbers of linux/capability.h. */
const needed = [{ name: "NET_ADMIN", bit: 12n }] as const;

/** The process may not do what its work needs. */
export class MissingCapabilityError extends Error {
  override readonly name = "MissingCapabilityError";
  readonly missing: readonly string[];

  constructor(missing: readonly string[]) {
    super(
      `Cannot change the node's network: missing capability ${missing.join(", ")}; run as root, ` +
        `or in a container with securityContext.capabilities.add: [${missing.join(", ")}, NET_RAW]`,
    );
    this.missing = missing;
  }
}

/** Throws {@link MissingCapabilityError} unless the process has CAP_NET_ADMIN. */
export function checkCapabilities(
  readStatus: () => string = () => readFileSync("/proc/self/status", "utf8"),
): void {
  const missing = missingCapabilities(readStatus());
  if (missing.length > 0) throw new MissingCapabilityError(missing);
}

/** Names what is absent from the effective set, `CapEff` in /proc/self/status. */
function missingCapabilities(status: string): readonly string[] {
  const digits = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  // Where /proc does not say it, the kernel will.
  if (digits === undefined) return [];
  const effective = BigInt(`0x${digits}`);
  return needed.filter(({ bit }) => ((effective >> bit) & 1n) === 0n).map(({ name }) => name);
}
