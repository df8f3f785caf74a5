/** IPVS schedulers: their names, the flags they support, and which of them use weights. */

/** Flag bits by their names in `ipvsadm -b`. The schedulers sh and mh use the same bits. Source: linux/ip_vs.h. */
export const schedulerFlagBits = {
  "sh-fallback": 0x8,
  "sh-port": 0x10,
  "mh-fallback": 0x8,
  "mh-port": 0x10,
} as const;

export type SchedulerFlag = keyof typeof schedulerFlagBits;

/** Parses a comma-separated list of flags, or `none`. Undefined if it is invalid. */
export function parseSchedulerFlags(text: string): readonly SchedulerFlag[] | undefined {
  const words = text.split(",").map((word) => word.trim());
  if (words.length === 1 && words[0] === "none") return [];
  const flags = words.filter((word): word is SchedulerFlag =>
    Object.hasOwn(schedulerFlagBits, word),
  );
  return flags.length === words.length ? flags : undefined;
}

/** Whether a scheduler supports a flag, as `sh` supports `sh-port`. */
export function isFlagOf(scheduler: string, flag: SchedulerFlag): boolean {
  return flag.startsWith(`${scheduler}-`);
}

/** Whether the text is a valid scheduler name: at most IP_VS_SCHEDNAME_MAXLEN bytes with the terminator. */
export function isSchedulerName(text: string): boolean {
  return /^[a-z0-9_]{1,15}$/.test(text);
}

/** The schedulers in Linux 6, named without their modules' prefix `ip_vs_`. Source: net/netfilter/ipvs. */
export const knownSchedulers: readonly string[] = [
  "rr",
  "wrr",
  "lc",
  "wlc",
  "lblc",
  "lblcr",
  "dh",
  "sh",
  "sed",
  "nq",
  "fo",
  "ovf",
  "mh",
  "twos",
];

/**
 * Whether a Service may name this scheduler. Only schedulers included in Linux or added by the administrator are
 * allowed, because the kernel would load the module `ip_vs_NAME` for any name.
 */
export function isAllowedScheduler(name: string, extra: readonly string[]): boolean {
  return knownSchedulers.includes(name) || extra.includes(name);
}

/** Schedulers that distribute connections by weight, and for which a weight may grow gradually. */
const ramping = ["wrr", "wlc", "sed", "nq", "lblc", "lblcr", "twos"];
/** Schedulers that use weights: sh and mh distribute clients by weight, fo and ovf rank real servers by weight. */
const weighted: ReadonlySet<string> = new Set([...ramping, "sh", "mh", "fo", "ovf"]);

/** Whether the scheduler distinguishes weights greater than 0. */
export function honorsWeights(scheduler: string): boolean {
  return weighted.has(scheduler);
}

/** Whether an endpoint's share of connections grows step by step with its weight. */
export function rampsWeights(scheduler: string): boolean {
  return ramping.includes(scheduler);
}

/** Whether weights determine each endpoint's share of the connections. */
export function sharesByWeights(scheduler: string): boolean {
  return rampsWeights(scheduler) || scheduler === "sh" || scheduler === "mh";
}

/** Whether connections that the scheduler would assign to an endpoint with weight 0 get another endpoint. */
export function avoidsZeroWeights(
  scheduler: string,
  flags: readonly SchedulerFlag[] = [],
): boolean {
  if (scheduler === "sh" || scheduler === "mh") return flags.includes(`${scheduler}-fallback`);
  return scheduler !== "dh";
}
