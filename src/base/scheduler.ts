/** What is known of IPVS' schedulers beside their names: which flags they take, and which use weights. */

/** Bits by the names that `ipvsadm -b` uses; two schedulers give the same bits different names. linux/ip_vs.h. */
export const schedulerFlagBits = {
  "sh-fallback": 0x8,
  "sh-port": 0x10,
  "mh-fallback": 0x8,
  "mh-port": 0x10,
} as const;

export type SchedulerFlag = keyof typeof schedulerFlagBits;

/** A list of flags separated by commas, `none` for no flag; undefined where it is no such list. */
export function parseSchedulerFlags(text: string): readonly SchedulerFlag[] | undefined {
  const words = text.split(",").map((word) => word.trim());
  if (words.length === 1 && words[0] === "none") return [];
  const flags = words.filter((word): word is SchedulerFlag =>
    Object.hasOwn(schedulerFlagBits, word),
  );
  return flags.length === words.length ? flags : undefined;
}

/** `sh-port` belongs to `sh`. */
export function isFlagOf(scheduler: string, flag: SchedulerFlag): boolean {
  return flag.startsWith(`${scheduler}-`);
}

/** What a scheduler may be called: IP_VS_SCHEDNAME_MAXLEN less the terminator. */
export function isSchedulerName(text: string): boolean {
  return /^[a-z0-9_]{1,15}$/.test(text);
}

/** net/netfilter/ipvs: the schedulers of Linux 6, by their names without `ip_vs_`. */
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

/** A Service may name Linux's schedulers and those that the administrator adds: the kernel loads `ip_vs_NAME` for each name. */
export function isAllowedScheduler(name: string, extra: readonly string[]): boolean {
  return knownSchedulers.includes(name) || extra.includes(name);
}

/** Schedulers that share connections by weight, and can follow one that grows. */
const ramping = ["wrr", "wlc", "sed", "nq", "lblc", "lblcr", "twos"];
/** Those that use weights: `sh` and `mh` share clients by them, `fo` and `ovf` rank by them. */
const weighted: ReadonlySet<string> = new Set([...ramping, "sh", "mh", "fo", "ovf"]);

/** Weights other than 0 and 1 mean something to it. */
export function honoursWeights(scheduler: string): boolean {
  return weighted.has(scheduler);
}

/** A weight that grows step by step gets its endpoint more and more connections. */
export function rampsWeights(scheduler: string): boolean {
  return ramping.includes(scheduler);
}

/** A share of the connections can be given by weights. */
export function sharesByWeights(scheduler: string): boolean {
  return rampsWeights(scheduler) || scheduler === "sh" || scheduler === "mh";
}
