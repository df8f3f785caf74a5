/** The daemon's status for people: the verdict, then what it rests on. Pure. */
import { grouped } from "../../base/counted.ts";
import { durationText } from "../../base/duration-text.ts";
import { escapeUnprintable } from "../../base/printable.ts";
import type { Status, SyncStatus } from "../../daemon/operator/answers.ts";

/** Objects shown of each kind. */
const maxShown = 10;

export function statusText(status: Status): string {
  const { counts, versions, process, node, lastDrift, iptables } = status;
  const rows: readonly (readonly [title: string, text: string, details?: readonly string[]])[] = [
    ["Node", `${node.name}${node.isEligible ? "" : ", not eligible for new traffic"}`],
    ["Mode", modeText(status)],
    sourceRow(status),
    ["Last full sync", syncText(status.lastFullSync)],
    ["Last partial sync", syncText(status.lastPartialSync)],
    ["Services", servicesText(counts)],
    ...(status.mode === "ipvs" ? serverRows(counts) : []),
    ["Refused objects", grouped(counts.refusedObjects), status.refusedObjects.map(refusalText)],
    ["Conflicts", grouped(counts.conflicts), status.conflicts.map(conflictText)],
    ["Drift", driftText(counts.drifts, lastDrift)],
    [
      "Suppressed repairs",
      grouped(counts.suppressedRepairs),
      status.suppressedRepairs.map(repairText),
    ],
    ...(status.mode === "ipvs"
      ? [
          [
            "Manual weights",
            grouped(counts.manualWeights),
            status.manualWeights.map(weightText),
          ] as const,
        ]
      : []),
    [
      "iptables",
      iptables === undefined ? "-" : `${iptables.backend}: ${iptables.reason}`,
      warningOf(iptables),
    ],
    [
      "Versions",
      `kube-ipvs ${versions.program}, Node.js ${versions.nodeJs}, Linux ${versions.kernel}`,
    ],
    ["Process", `${process.pid}, up ${durationText(process.uptimeSeconds)}`],
  ];
  const titleWidth = Math.max(...rows.map(([title]) => title.length));
  const lines = rows.flatMap(([title, text, details = []]) => [
    `${title.padEnd(titleWidth)}  ${text}`,
    ...details.slice(0, maxShown).map((detail) => `  ${detail}`),
    ...(details.length > maxShown ? [`  and ${details.length - maxShown} more (-o json)`] : []),
  ]);
  return `${[status.summary, "", ...lines].map(escapeUnprintable).join("\n")}\n`;
}

function servicesText({ services, endpoints }: Status["counts"]): string {
  return `${grouped(services)} with ${grouped(endpoints)} endpoint${endpoints === 1 ? "" : "s"}`;
}

/** Other modes have none. */
function serverRows(counts: Status["counts"]): readonly (readonly [title: string, text: string])[] {
  return [
    ["Virtual servers", virtualServersText(counts)],
    ["Real servers", `${grouped(counts.realServers)}, ${grouped(counts.draining)} draining`],
  ];
}

function modeText({ mode, observeOnly, ipFamilies, scheduler }: Status): string {
  const families = ipFamilies.length === 0 ? "" : `, ${ipFamilies.join(" and ")}`;
  return `${mode}${observeOnly ? ", observe-only" : ""}${families}${mode === "ipvs" ? `, scheduler ${scheduler}` : ""}`;
}

function sourceRow({ source }: Status): readonly [string, string] {
  if (source.kind === "manifests") return ["Manifests", source.folder];
  const { server = "-", lastAnswerSeconds, failingSeconds } = source;
  const answer =
    lastAnswerSeconds === undefined
      ? "no answer yet"
      : `last answer ${durationText(lastAnswerSeconds)} ago`;
  const failing =
    failingSeconds === undefined ? "" : `, requests fail for ${durationText(failingSeconds)}`;
  return ["API server", `${server}, ${answer}${failing}`];
}

function syncText(sync: SyncStatus | undefined): string {
  if (sync === undefined) return "none yet";
  return `${durationText(sync.ageSeconds)} ago, ${sync.durationMs.toFixed(1)} ms`;
}

function virtualServersText(counts: Status["counts"]): string {
  const { virtualServers, foreignVirtualServers, possiblyOwnedVirtualServers } = counts;
  const possible =
    possiblyOwnedVirtualServers === 0
      ? ""
      : ` (${grouped(possiblyOwnedVirtualServers)} may be leftovers)`;
  return `${grouped(virtualServers)}, and ${grouped(foreignVirtualServers)} foreign${possible}`;
}

function refusalText(refused: Status["refusedObjects"][number]): string {
  const { subject, message, services, sinceSeconds, retryInSeconds } = refused;
  const service = services.length === 0 ? "" : ` (${services.join(", ")})`;
  const times = `for ${durationText(sinceSeconds)}, next attempt in ${durationText(retryInSeconds)}`;
  return `${subject}${service} ${times}: ${message}`;
}

function conflictText({
  message,
  remedy,
  reason,
  service,
  sinceSeconds,
}: Status["conflicts"][number]): string {
  return `${service} for ${durationText(sinceSeconds)}, ${reason}: ${message}; ${remedy}`;
}

function repairText({
  subject,
  drifts,
  pauseSeconds,
}: Status["suppressedRepairs"][number]): string {
  return `${subject}: reverted ${drifts} times within 10 min, pause ${durationText(pauseSeconds)}`;
}

function weightText({
  realServer,
  weight,
  plannedWeight,
}: Status["manualWeights"][number]): string {
  return `${realServer}: weight ${weight}, planned ${plannedWeight}`;
}

function driftText(count: number, last: Status["lastDrift"]): string {
  if (last === undefined) return "none since the start";
  const age = durationText(last.ageSeconds);
  return `${grouped(count)} since the start, the last ${age} ago: ${last.subject} (${last.action})`;
}

function warningOf(iptables: Status["iptables"]): readonly string[] {
  return iptables?.warning === undefined ? [] : [iptables.warning];
}
