/** Chooses how rules and sets are written: iptables with ipset, or nf_tables. */

import { errorText } from "../base/error-text.ts";
import { ipFamilies } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import { orElse } from "../base/or-else.ts";
import { isSubsystemMissing, NetlinkError } from "../netlink/errors.ts";
import type { TransportDependencies } from "../netlink/transport.ts";
import { IpSetsClient } from "./ipset/client.ts";
import { type BackendChoice, chooseBackend } from "./iptables/backend.ts";
import { IptablesClient } from "./iptables/client.ts";
import { openGenerations } from "./iptables/generations.ts";
import type { IpSets, Iptables, Kernel } from "./kernel.ts";
import { NftRulesClient } from "./nftables/rules-client.ts";
import { NftSetsClient } from "./nftables/sets-client.ts";
import { watchTables } from "./nftables/watch.ts";
import { isProgramMissing } from "./program.ts";
import { runProgram } from "./run-program.ts";

/** `auto`: iptables if the node has iptables and ipset, otherwise nf_tables. */
export type RulesWriter = "auto" | "iptables" | "nftables";

export interface RulesOptions extends TransportDependencies {
  readonly log: Logger;
  /** If undefined, iptables is used, and ipset is not needed. */
  readonly rules?: RulesWriter | undefined;
  /** An earlier result of {@link chooseBackend}. */
  readonly iptablesBackend?: BackendChoice | undefined;
}

interface OpenRules extends Pick<Kernel, "ipSets" | "iptables" | "watchTables" | "keepConntrack"> {
  readonly unusedBackends: NonNullable<Kernel["unusedBackends"]>;
  readonly otherSets: NonNullable<Kernel["otherSets"]>;
  close(): void;
}

/** Rejects if the required programs or kernel facilities are missing. The error says what to do. */
export async function openRules(options: RulesOptions): Promise<OpenRules> {
  const { log, rules, iptablesBackend } = options;
  if (rules === "nftables") return openNftRules(options, "kubeIpvs.rules is nftables");
  const ipSets = new IpSetsClient(options);
  let problem: unknown;
  try {
    if (rules !== undefined) await ipSets.listSets();
    const choice = iptablesBackend ?? (await chooseBackend(runProgram));
    if (iptablesBackend === undefined) reportBackend(choice, log);
    return openIptablesRules(options, ipSets, choice);
  } catch (error) {
    ipSets.close();
    const isMissing = isSubsystemMissing(error) || isProgramMissing(error);
    if (rules === undefined || !isMissing) throw error;
    problem = error;
  }
  const problemText =
    problem instanceof NetlinkError
      ? `the kernel has no ip_set (${problem.code})`
      : errorText(problem);
  const reason = `Cannot write rules with iptables and ipset: ${problemText}`;
  if (rules === "iptables") {
    throw new Error(`${reason}; set kubeIpvs.rules: nftables`, { cause: problem });
  }
  const opened = openNftRules(options, problemText);
  const missing = await missingNftables(opened.iptables);
  if (missing === undefined) return opened;
  opened.close();
  throw new Error(`${reason}; nf_tables does not work either: ${missing}`, { cause: problem });
}

function openIptablesRules(
  options: RulesOptions,
  ipSets: IpSetsClient,
  choice: BackendChoice,
): OpenRules {
  const { log } = options;
  const generations = openGenerations(choice.backend, options);
  const unused = choice.unused === undefined ? [] : [choice.unused];
  const unusedBackends = unused.map((one) => new IptablesClient({ runProgram, log }, one));
  const otherSets = optional(new NftSetsClient(options));
  return {
    ...{ ipSets, otherSets },
    iptables: new IptablesClient({ runProgram, generations, log }, choice),
    unusedBackends: async () => unusedBackends,
    close() {
      for (const socket of [ipSets, otherSets, generations]) socket.close();
    },
  };
}

function openNftRules(options: RulesOptions, reason: string): OpenRules {
  const { log } = options;
  const sockets = {
    ipSets: new NftSetsClient(options),
    otherSets: optional(new IpSetsClient(options)),
    iptables: new NftRulesClient(options, reason),
  };
  const { ipSets, iptables } = sockets;
  const readPortIds = (): Promise<readonly number[]> =>
    Promise.all([ipSets, iptables].map((socket) => socket.readPortId()));
  let opening: Promise<readonly Iptables[]> | undefined;
  const unusedBackends = (): Promise<readonly Iptables[]> => {
    opening ??= openAllBackends(log);
    opening.catch(() => {
      opening = undefined;
    });
    return opening;
  };
  log.info("Writing rules with nf_tables, without iptables and ipset", { reason });
  return {
    ...sockets,
    unusedBackends,
    keepConntrack: (family) => iptables.keepConntrack(family),
    watchTables: (listener) => watchTables(options, readPortIds, listener),
    close() {
      for (const socket of Object.values(sockets)) socket.close();
    },
  };
}

/** Lists no sets if the kernel does not support them. */
function optional<T extends IpSets>(ipSets: T): T {
  const listSets: IpSets["listSets"] = ipSets.listSets.bind(ipSets);
  return Object.assign(ipSets, {
    listSets: () => orElse(listSets(), isSubsystemMissing, []),
  });
}

/** The iptables backends that may contain rules. Empty if the iptables programs are not installed. */
async function openAllBackends(log: Logger): Promise<readonly Iptables[]> {
  const choice = await orElse(chooseBackend(runProgram), isProgramMissing, undefined);
  if (choice === undefined) return [];
  const { unused, ...used } = choice;
  return [used, ...(unused === undefined ? [] : [unused])].map(
    (backend) => new IptablesClient({ runProgram, log }, backend),
  );
}

/** Why nf_tables supports neither family. Undefined if it works. */
async function missingNftables(iptables: Iptables): Promise<string | undefined> {
  const probes = await Promise.all(ipFamilies.map((family) => iptables.probe(family)));
  return probes.some(({ isSupported }) => isSupported) ? undefined : probes[0]?.reason;
}

function reportBackend({ backend, reason, warning }: BackendChoice, log: Logger): void {
  log.info("Using iptables", { backend, reason });
  if (warning !== undefined) log.warn("Two iptables backends are in use", { reason: warning });
}
