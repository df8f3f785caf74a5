/** Reads a Service's tuning from its annotations. Pure. */
import type { ServiceRecord } from "../api/objects.ts";
import { parseDuration } from "../base/duration.ts";
import { none } from "../base/none.ts";
import { type PortRange, parsePortRanges } from "../base/port-range.ts";
import {
  avoidsZeroWeights,
  honorsWeights,
  isAllowedScheduler,
  isFlagOf,
  isSchedulerName,
  parseSchedulerFlags,
  rampsWeights,
  sharesByWeights,
} from "../base/scheduler.ts";
import {
  type AnnotationProblem,
  type Canary,
  type TopologyPreference,
  type Tuning,
  type WeightPage,
  weightSources,
} from "./tuning.ts";

const prefix = "kube-ipvs.io/";
const schedulerName = `${prefix}scheduler`;
const flagsName = `${prefix}scheduler-flags`;
const onePacketName = `${prefix}one-packet`;
const limitName = `${prefix}max-connections`;
const deadlineName = `${prefix}drain-deadline`;
export const weightsName: string = `${prefix}weights`;
const slowStartName = `${prefix}slow-start`;
const ejectionName = `${prefix}outlier-ejection`;
const canaryName = `${prefix}canary`;
/** Annotation of EndpointSlices and label of Nodes. */
export const weightName: string = `${prefix}weight`;
export const preferenceName: string = `${prefix}prefer-topology`;
const portRangeName = `${prefix}port-range`;
export const tunnelName: string = `${prefix}forwarding`;

/**
 * Other software's annotation names with the same meaning. If both names are present, the one under kube-ipvs.io/
 * applies.
 */
const aliases: Readonly<Record<string, string>> = {
  "kube-router.io/service.scheduler": schedulerName,
};

export interface ServiceTuning {
  readonly tuning: Tuning;
  /** Ignored annotations. The default applies instead. */
  readonly problems: readonly AnnotationProblem[];
}

interface AnnotationReader {
  /** Returns undefined if the text is invalid. */
  readonly read: (text: string) => Partial<Tuning> | undefined;
  readonly rule: string;
}

const readers: Readonly<Record<string, AnnotationReader>> = {
  [schedulerName]: {
    read: (text) => (isSchedulerName(text) ? { scheduler: text } : undefined),
    rule: "must be the name of an IPVS scheduler, such as wrr",
  },
  [flagsName]: {
    read: readAs("schedulerFlags", parseSchedulerFlags),
    rule: "must be none, or a list of sh-port, sh-fallback, mh-port and mh-fallback",
  },
  [onePacketName]: {
    read: (text) => (/^(?:true|false)$/.test(text) ? { onePacket: text === "true" } : undefined),
    rule: "must be true or false",
  },
  [limitName]: {
    read: readAs("maxConnections", readLimit),
    rule: 'must be a number of connections, such as "100", or two, such as "100,80": new connections stop at the first number and resume below the second',
  },
  [deadlineName]: {
    read: (text) => {
      const milliseconds = readDuration(text);
      return milliseconds === undefined ? undefined : { drainDeadlineSeconds: milliseconds / 1000 };
    },
    rule: "must be a duration such as 30s, at most 8760h",
  },
  [weightsName]: {
    read: readAs("weights", readWeights),
    rule: `must be one of ${weightSources.join(", ")}, or http=:PORT/PATH such as http=:8080/weight`,
  },
  [slowStartName]: {
    read: readAs("slowStartMs", (text) => readDuration(text, 1_000)),
    rule: "must be 0s, or a duration of at least 1s such as 30s",
  },
  [ejectionName]: {
    read: readAs("outlierEjectionMs", (text) => readDuration(text, 5_000, 3_600_000)),
    rule: "must be 0s, or a duration from 5s to 1h such as 30s",
  },
  [canaryName]: {
    read: readAs("canary", readCanary),
    rule: "must be slice=NAME,share=PERCENT% or zone=NAME,share=PERCENT%, such as slice=web-canary,share=10%",
  },
  [preferenceName]: {
    read: readAs("preference", readPreference),
    rule: "must be a Node label, or a label and a percentage such as example.com/rack,minimum=50%",
  },
  [tunnelName]: {
    read: (text) =>
      /^masquerade$|^tunnel$/.test(text) ? { isTunneled: text === "tunnel" } : undefined,
    rule: "must be masquerade or tunnel",
  },
  [portRangeName]: {
    read: readAs("portRanges", parsePortRanges),
    rule: 'must be at most 16 ports and ranges of ports that do not overlap, such as "5060,10000-20000"',
  },
};

/** Reads a text as one property of the tuning. */
function readAs<Name extends keyof Tuning>(
  name: Name,
  read: (text: string) => Tuning[Name] | undefined,
): AnnotationReader["read"] {
  return (text) => {
    const value = read(text);
    return value === undefined ? undefined : ({ [name]: value } as Partial<Tuning>);
  };
}

function readWeights(text: string): Tuning["weights"] {
  return weightSources.find((source) => source === text) ?? readWeightPage(text);
}

/** The path contains only characters that need no escaping in the first line of a request. */
function readWeightPage(text: string): WeightPage | undefined {
  const [, digits, path = ""] = /^http=:(\d{1,5})(\/[\w.~%/?&=-]{0,127})$/.exec(text) ?? [];
  const port = Number(digits);
  return port >= 1 && port <= 65_535 ? { port, path } : undefined;
}

/** The kernel counts connections in 32 bits. No node reaches this number. */
const mostConnections = 2 ** 31 - 1;

function readLimit(text: string): Tuning["maxConnections"] {
  const [, first, second] = /^(\d{1,10})(?:\s*,\s*(\d{1,10}))?$/.exec(text) ?? [];
  if (first === undefined) return undefined;
  const [upper, lower] = [Number(first), Number(second ?? 0)];
  return upper <= mostConnections && lower <= upper ? { upper, lower } : undefined;
}

const longestMs = 8_760 * 3_600_000;

/** Zero is valid even if it is less than `leastMs`. */
function readDuration(text: string, leastMs = 0, mostMs = longestMs): number | undefined {
  const milliseconds = parseDuration(text);
  if (milliseconds === undefined || milliseconds === 0) return milliseconds;
  return milliseconds >= leastMs && milliseconds <= mostMs ? milliseconds : undefined;
}

function readCanary(text: string): Canary | undefined {
  const [, by, name = "", share] =
    /^(slice|zone)\s*=\s*([^\s,=]{1,253})\s*,\s*share\s*=\s*(\d{1,3})%$/.exec(text) ?? [];
  const percent = Number(share);
  if ((by !== "slice" && by !== "zone") || percent > 100) return undefined;
  return { by, name, percent };
}

const labelName =
  /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\/)?[a-z0-9](?:[\w.-]{0,61}[a-z0-9])?$/i;
const defaultMinimumPercent = 50;

function readPreference(text: string): TopologyPreference | undefined {
  const [, label = "", minimum = defaultMinimumPercent] =
    /^([^\s,]+)(?:\s*,\s*minimum\s*=\s*(\d{1,3})%)?$/.exec(text) ?? [];
  const minimumPercent = Number(minimum);
  return labelName.test(label) && minimumPercent <= 100 ? { label, minimumPercent } : undefined;
}

/** The scheduler that a Service requests. Undefined if the configured scheduler applies. */
export function requestedScheduler({ annotations }: Annotated): string | undefined {
  if (annotations === undefined) return undefined;
  const given = givenAnnotations(annotations).find(({ meaning }) => meaning === schedulerName);
  return given === undefined ? undefined : readers[schedulerName]?.read(given.value)?.scheduler;
}

/** The port ranges that a Service requests. Empty if there are none, or if they are invalid. */
export function requestedPortRanges(
  annotations: NonNullable<Annotated["annotations"]>,
): readonly PortRange[] {
  return parsePortRanges(annotations[portRangeName] ?? "") ?? none;
}

/** The Node labels that determine which endpoints of a Service a node uses, and with which weights. */
export function neededNodeLabels({ annotations }: Annotated): readonly string[] {
  if (annotations === undefined) return none;
  const weights = readers[weightsName]?.read(annotations[weightsName]?.trim() ?? "")?.weights;
  const preferred = readPreference(annotations[preferenceName]?.trim() ?? "");
  return [
    ...(weights === "node" ? [weightName] : none),
    ...(preferred === undefined ? none : [preferred.label]),
  ];
}

type Annotated = Pick<ServiceRecord, "annotations">;

/** The abilities of this node on which annotations depend. */
export interface NodeAbilities {
  /** Schedulers that are known to be missing from the kernel. */
  readonly missing: ReadonlySet<string>;
  /** Schedulers that the administrator allows in addition to Linux's own. */
  readonly extra: readonly string[];
  readonly hasPortRanges: boolean;
  /** Whether this node asks endpoints for their weights. */
  readonly areWeightsRequested: boolean;
}

/** Reads a Service's tuning. `abilities` is undefined in modes without tuning, in which every annotation is a problem. */
export function readTuning(
  service: Annotated & Pick<ServiceRecord, "ports">,
  defaults: Tuning,
  abilities: NodeAbilities | undefined,
): ServiceTuning {
  if (service.annotations === undefined) return { tuning: defaults, problems: none };
  const problems: AnnotationProblem[] = [];
  const given = givenAnnotations(service.annotations);
  let tuning = defaults;
  for (const { name: annotation, meaning, value } of given) {
    const reader = readers[meaning];
    const problem = { annotation, value };
    if (reader === undefined) {
      problems.push({ ...problem, reason: "unknown-annotation", message: unknownMessage });
      continue;
    }
    const part = reader.read(value.trim());
    if (part === undefined) {
      problems.push({ ...problem, reason: "invalid-annotation", message: reader.rule });
      continue;
    }
    const obstacle = obstacleTo(part, abilities);
    if (obstacle !== undefined) problems.push({ ...problem, ...obstacle });
    else tuning = { ...tuning, ...part };
  }
  problems.push(...withoutEffect(given, tuning, service.ports));
  return { tuning, problems };
}

/** Why a valid setting does not apply on this node. Undefined if it applies. */
function obstacleTo(
  { scheduler, portRanges, weights }: Partial<Tuning>,
  abilities: NodeAbilities | undefined,
): Pick<AnnotationProblem, "reason" | "message"> | undefined {
  const reason = "annotation-without-effect";
  if (abilities === undefined) return { reason, message: "annotations apply only in IPVS mode" };
  const { missing, extra, hasPortRanges, areWeightsRequested } = abilities;
  if (portRanges !== undefined && !hasPortRanges) {
    return { reason, message: "kubeIpvs.portRangeMarks is not set" };
  }
  if (typeof weights === "object" && !areWeightsRequested) {
    return { reason, message: "kubeIpvs.weightRequestPeriod is 0s" };
  }
  if (scheduler === undefined) return undefined;
  if (!isAllowedScheduler(scheduler, extra)) {
    const message = `Linux has no scheduler ${scheduler}, and kubeIpvs.extraSchedulers does not name it`;
    return { reason: "scheduler-not-allowed", message };
  }
  if (!missing.has(scheduler)) return undefined;
  const message = `the scheduler ${scheduler} is not available in the kernel: run modprobe ip_vs_${scheduler} on the node`;
  return { reason: "scheduler-unavailable", message };
}

const unknownMessage = `kube-ipvs supports ${Object.keys(readers)
  .map((name) => name.slice(prefix.length))
  .join(", ")} under ${prefix}`;

interface GivenAnnotation {
  /** The annotation's name in the Service, which may be an alias. */
  readonly name: string;
  /** The name under kube-ipvs.io/. */
  readonly meaning: string;
  readonly value: string;
}

/** Returns each setting once, sorted by annotation name. */
function givenAnnotations(
  annotations: Readonly<Record<string, string>>,
): readonly GivenAnnotation[] {
  return Object.entries(annotations)
    .map(([name, value]) => ({ name, meaning: aliases[name] ?? name, value }))
    .filter(({ name, meaning }) => name === meaning || !Object.hasOwn(annotations, meaning))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

function withoutEffect(
  given: readonly GivenAnnotation[],
  tuning: Tuning,
  ports: ServiceRecord["ports"],
): readonly AnnotationProblem[] {
  return given.flatMap(({ name: annotation, meaning, value }): readonly AnnotationProblem[] => {
    const message = whyWithoutEffect(meaning, tuning, ports);
    if (message === undefined) return [];
    return [{ annotation, value, reason: "annotation-without-effect", message }];
  });
}

/** Returns undefined if the annotation has an effect or only repeats the default. */
function whyWithoutEffect(
  meaning: string,
  tuning: Tuning,
  ports: ServiceRecord["ports"],
): string | undefined {
  const { scheduler, schedulerFlags = [], weights = "equal", canary } = tuning;
  switch (meaning) {
    case flagsName:
      return schedulerFlags.every((flag) => isFlagOf(scheduler, flag))
        ? undefined
        : `the scheduler is ${scheduler}, which has no such flag`;
    case onePacketName:
      return tuning.onePacket !== true || ports.some(({ protocol }) => protocol === "UDP")
        ? undefined
        : "the Service has no UDP port";
    case weightsName:
      return weights === "equal" || honorsWeights(scheduler) ? undefined : unweighted(scheduler);
    case slowStartName:
      return (tuning.slowStartMs ?? 0) === 0 || rampsWeights(scheduler)
        ? undefined
        : unweighted(scheduler);
    case ejectionName:
      if ((tuning.outlierEjectionMs ?? 0) === 0) return undefined;
      if (!ports.some(({ protocol }) => protocol === "TCP")) return "the Service has no TCP port";
      return avoidsZeroWeights(scheduler, schedulerFlags)
        ? undefined
        : `the scheduler is ${scheduler}, which would refuse the connections of an ejected endpoint; sh and mh need ${flagsName}: ${scheduler}-fallback`;
    case canaryName:
      return canary === undefined || sharesByWeights(scheduler) ? undefined : unweighted(scheduler);
    default:
      return undefined;
  }
}

function unweighted(scheduler: string): string {
  return `the scheduler is ${scheduler}, which ignores these weights; set ${schedulerName} to wrr or wlc`;
}
