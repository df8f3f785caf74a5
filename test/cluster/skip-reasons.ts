/** Why the default value of SKIP, or a value in README.md, excludes specs. */

const reasons: readonly (readonly [part: string, reason: string])[] = [
  ["[Serial]", "Kubernetes runs it alone, because it can affect other specs"],
  ["[Disruptive]", "it restarts a component or deletes rules that other specs need"],
  ["session affinity timeout", "it sleeps for 130 s between requests"],
  ["rolling update", "it restarts pods five times on each node, which takes at least 15 minutes"],
];

/** Regular expression for the specs that are excluded by default. The last reason's specs are only in LoadBalancers. */
export const defaultSkip: string = reasons
  .slice(0, -1)
  .map(([part]) => part.replaceAll(/[[\]]/g, String.raw`\$&`))
  .join("|");

export function skipReason(title: string): string {
  const reason = reasons.find(([part]) => title.includes(part))?.[1];
  return reason === undefined ? "excluded by SKIP" : `excluded by SKIP: ${reason}`;
}
