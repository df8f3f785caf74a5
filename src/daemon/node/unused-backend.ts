import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Kernel, UnusedBackend } from "../../kernel/kernel.ts";
import { planRulesRemoval } from "../../reconcile/remove-all.ts";
import { removeRules, rulesOfAnyMode } from "./remove-rules.ts";

/** What was done in the backend of iptables that is not in use. */
export interface UnusedBackendReport {
  readonly backend: UnusedBackend["backend"];
  /** Chains and jumps. */
  readonly removedCount: number;
  /** Chains that rules of other programs lead to: `IPv4 nat KUBE-MARK-MASQ`. */
  readonly kept: readonly string[];
  readonly failures: readonly { readonly family: IpFamily; readonly error: unknown }[];
}

/**
 * Removes our rules from the other backend of iptables. They stay behind when kubelet or the network plugin has moved
 * to another one since the last run, decide over packets together with the new ones, and hold our sets. Undefined
 * where that backend holds nothing at all. Never rejects.
 */
export async function cleanUnusedBackend(
  { unusedBackend }: Pick<Kernel, "unusedBackend">,
  config: Config,
): Promise<UnusedBackendReport | undefined> {
  if (unusedBackend === undefined) return undefined;
  let removedCount = 0;
  const kept: string[] = [];
  const failures: { family: IpFamily; error: unknown }[] = [];
  for (const family of ipFamilies) {
    try {
      const removal = await removeRules(unusedBackend, family, rulesOfAnyMode(family, config));
      removedCount += removal.changes.length;
      kept.push(...removal.kept.map(({ table, name }) => `${family} ${table} ${name}`));
    } catch (error) {
      failures.push({ family, error });
    }
  }
  return { backend: unusedBackend.backend, removedCount, kept, failures };
}

/** Chains and jumps of ours there, which clean-up would remove. */
export async function countUnusedRules(
  { unusedBackend }: Pick<Kernel, "unusedBackend">,
  config: Config,
): Promise<number> {
  if (unusedBackend === undefined) return 0;
  let count = 0;
  for (const family of ipFamilies) {
    const planned = rulesOfAnyMode(family, config);
    count += (await planRulesRemoval(unusedBackend, family, planned)).changes.length;
  }
  return count;
}

/** To be called when the new rules stand: in between, traffic would be without both. Never rejects. */
export async function tidyUnusedBackend(
  kernel: Pick<Kernel, "unusedBackend">,
  config: Config,
  log: Logger,
): Promise<void> {
  const report = await cleanUnusedBackend(kernel, config);
  if (report === undefined) return;
  const { backend, removedCount, kept, failures } = report;
  for (const { family, error } of failures) {
    const keys = { backend, ipFamily: family, err: errorText(error) };
    log.warn("Cannot remove rules from the unused iptables backend", keys);
  }
  if (removedCount > 0) {
    log.info("Removed rules of an earlier run from the unused iptables backend", {
      backend,
      chainsAndJumps: removedCount,
    });
  }
  if (kept.length > 0) {
    const reason = "rules of other programs lead to them";
    log.warn("Kept chains in the unused iptables backend", { backend, chains: kept, reason });
  }
}

/** What `--cleanup` prints of it; false where something of ours was left. */
export function printUnusedBackend(
  report: UnusedBackendReport | undefined,
  print: (line: string) => void,
): boolean {
  if (report === undefined) return true;
  const { backend, removedCount, kept, failures } = report;
  if (removedCount > 0) {
    const count = String(removedCount).padStart(5);
    print(`Removed ${count} iptables chains and jumps from ${backend}, which is not in use`);
  }
  for (const chain of kept)
    print(`Kept ${chain} in ${backend}: a rule that is not ours still uses it`);
  for (const { family, error } of failures) {
    print(`Could not remove rules of ${family} from ${backend}: ${errorText(error)}`);
  }
  return failures.length === 0;
}
