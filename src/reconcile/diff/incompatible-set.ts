import type { RefusedChange } from "../apply/outcome.ts";
import type { UnusableSet } from "./diff-sets.ts";

/** A set of another type that cannot be replaced. */
class IncompatibleSetError extends Error {
  override readonly name = "IncompatibleSetError";
  readonly code = "incompatible-set";

  constructor({ wanted, present }: UnusableSet) {
    super(
      `Cannot replace set ${wanted.name} (${present.type}) by one of ${wanted.type}: third-party rules refer to it; ` +
        "remove those rules, or destroy the set",
    );
  }
}

/** Refused without asking the kernel. */
export function incompatibleSetError(unusable: UnusableSet): RefusedChange {
  const setName = unusable.wanted.name;
  return {
    change: { kind: "set-destroy", setName, reason: "incompatible-set" },
    error: new IncompatibleSetError(unusable),
  };
}
