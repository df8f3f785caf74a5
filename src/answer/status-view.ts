/** Shows the daemon's status to people: the verdict, then the details. Pure. */
import { grouped } from "../base/counted.ts";
import { durationText } from "../base/duration-text.ts";
import type { Status, StatusWithoutDaemon, SyncStatus } from "./answers.ts";
import { rulesWriter } from "./plan.ts";
import { type Fact, facts, type View } from "./render.ts";

export const statusView: View<Status | StatusWithoutDaemon> = {
  blocks: (status) =>
    "counts" in status ? [status.summary, "", facts(factsOf(status))] : [status.summary],
};

function factsOf(status: Status): readonly Fact[] {
  const { counts, versions, process, node, lastDrift, iptables } = status;
  const isIpvs = status.mode === "ipvs";
  // Until the first sync, the counts are zero although the kernel may serve what an earlier run wrote.
  const isUnknown = (status.lastFullSync ?? status.lastPartialSync) === undefined;
  const objects: readonly Fact[] = [["Services", servicesText(counts)]];
  const servers: readonly Fact[] = [
    ["Virtual servers", virtualServersText(counts)],
    ["Real servers", `${grouped(counts.realServers)}, ${grouped(counts.draining)} draining`],
  ];
  const weights = status.manualWeights.map(
    ({ realServer, weight, plannedWeight }) =>
      `${realServer}: weight ${weight}, planned ${plannedWeight}`,
  );
  const ignored = status.ignoredAnnotations.map(
    ({ service, annotation, value, reason, message }) =>
      `${service}: ${annotation}: ${JSON.stringify(value)} (${reason}): ${message}`,
  );
  const tuning: readonly Fact[] = [
    ...signalFacts(counts),
    ["Manual weights", grouped(counts.manualWeights), weights],
    ["Ignored annotations", grouped(counts.ignoredAnnotations), ignored],
  ];
  return [
    ["Node", `${node.name}${node.isEligible ? "" : ", not eligible for new traffic"}`],
    ["Mode", modeText(status)],
    sourceFact(status),
    ["Last full sync", syncText(status.lastFullSync)],
    ["Last partial sync", syncText(status.lastPartialSync)],
    ...(isUnknown ? [["Services", "unknown until the first sync"] as const] : objects),
    ...(isIpvs && !isUnknown ? servers : []),
    ["Rejected objects", grouped(counts.rejectedObjects), status.rejectedObjects.map(rejectedText)],
    ["Invalid objects", grouped(counts.invalidObjects), status.invalidObjects.map(invalidText)],
    ["Conflicts", grouped(counts.conflicts), status.conflicts.map(conflictText)],
    ["Drift", driftText(counts.drifts, lastDrift)],
    [
      "Backing off",
      grouped(counts.backingOffRepairs),
      status.backingOffRepairs.map(
        ({ subject, drifts, retryInSeconds }) =>
          `${subject}: reverted ${drifts} times within 10 min, next repair in ${durationText(retryInSeconds)}`,
      ),
    ],
    ...(isIpvs ? tuning : []),
    [
      rulesWriter(iptables?.backend),
      iptables === undefined ? "-" : `${iptables.backend}: ${iptables.reason}`,
      iptables?.warning === undefined ? [] : [iptables.warning],
    ],
    [
      "Versions",
      `kube-ipvs ${versions.program}, Node.js ${versions.nodeJs}, Linux ${versions.kernel}`,
    ],
    ["Process", `${process.pid}, up ${durationText(process.uptimeSeconds)}`],
    ["Not checked", "rules of other software, routes and settings: run kube-ipvs doctor"],
  ];
}

/** Facts about weights and ejections. Omits features that are not in use. */
function signalFacts(counts: Status["counts"]): readonly Fact[] {
  const { answeredWeights, unansweredWeights, ejectedEndpoints } = counts;
  const asked = answeredWeights + unansweredWeights;
  const answered = `${grouped(answeredWeights)} of ${grouped(asked)} endpoints`;
  return [
    ...(asked === 0 ? [] : [["Answered weights", answered] as const]),
    ...(ejectedEndpoints === 0 ? [] : [["Ejected endpoints", grouped(ejectedEndpoints)] as const]),
  ];
}

function servicesText({ services, endpoints }: Status["counts"]): string {
  return `${grouped(services)} with ${grouped(endpoints)} endpoint${endpoints === 1 ? "" : "s"}`;
}

function modeText({ mode, observeOnly, ipFamilies, scheduler }: Status): string {
  const families = ipFamilies.length === 0 ? "" : `, ${ipFamilies.join(" and ")}`;
  return `${mode}${observeOnly ? ", observe-only" : ""}${families}${mode === "ipvs" ? `, scheduler ${scheduler}` : ""}`;
}

function sourceFact({ source }: Status): Fact {
  if (source.kind === "manifests") return ["Manifests", source.folder];
  const { server = "-", lastAnswerSeconds: answered, failingSeconds } = source;
  const answer =
    answered === undefined ? "no answer yet" : `last answer ${durationText(answered)} ago`;
  const failing =
    failingSeconds === undefined
      ? ""
      : `, requests have been failing for ${durationText(failingSeconds)}`;
  return ["API server", `${server}, ${answer}${failing}`];
}

function syncText(sync: SyncStatus | undefined): string {
  if (sync === undefined) return "none yet";
  return `${durationText(sync.ageSeconds)} ago, took ${sync.durationMs.toFixed(1)} ms`;
}

function virtualServersText(counts: Status["counts"]): string {
  const { virtualServers, foreignVirtualServers, possiblyOwnedVirtualServers: possible } = counts;
  const leftovers = possible === 0 ? "" : ` (${grouped(possible)} may be leftovers)`;
  return `${grouped(virtualServers)}, and ${grouped(foreignVirtualServers)} foreign${leftovers}`;
}

function rejectedText(rejected: Status["rejectedObjects"][number]): string {
  const { subject, message, services, sinceSeconds, retryInSeconds } = rejected;
  const service = services.length === 0 ? "" : ` (${services.join(", ")})`;
  const times = `for ${durationText(sinceSeconds)}, next attempt in ${durationText(retryInSeconds)}`;
  return `${subject}${service} ${times}: ${message}`;
}

function conflictText(conflict: Status["conflicts"][number]): string {
  const { message, remedy, reason, service, sinceSeconds } = conflict;
  return `${service} for ${durationText(sinceSeconds)}, ${reason}: ${message}; ${remedy}`;
}

function invalidText({ message, invalidFields }: Status["invalidObjects"][number]): string {
  return invalidFields === 1 ? message : `${message} (and ${grouped(invalidFields - 1)} more)`;
}

function driftText(count: number, last: Status["lastDrift"]): string {
  if (last === undefined) return "none since startup";
  const age = durationText(last.ageSeconds);
  const by = last.changedBy === undefined ? "" : `, by ${last.changedBy}`;
  return `${grouped(count)} since startup, the last ${age} ago${by}: ${last.subject} (${last.action})`;
}
