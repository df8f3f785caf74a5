/**
 * The file that records when claims to external and load-balancer IPs were first seen: docs/decisions/0020. Unlike the
 * records of kernel state, it remains valid after a reboot.
 */
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import type { Config } from "../../config/config.ts";
import { listListeningSockets } from "../../kernel/listening-sockets.ts";
import { ClaimAges, type RecordedClaims } from "../../plan/claims/claim-ages.ts";
import type { ClaimMemory } from "../../plan/claims/claim-memory.ts";
import { PortAdmission } from "../../plan/claims/port-admission.ts";
import { type BootClock, numbersIn, StateFile, textsIn } from "./state-file.ts";

/**
 * Maximum total length of the recorded claims, in characters. A claim has up to 400 characters. The file must stay
 * smaller than the `maxBytes` of `StateFile`, which does not read larger files.
 */
const mostLength = 2 ** 20;

const everyBoot: BootClock = { bootId: "every boot", uptimeMs: () => 0 };

/** Opens the memory of claims, which is recorded in the configured file. */
export function openClaimMemory(
  { claimsFile, nodeProcessPorts }: Pick<Config, "claimsFile" | "nodeProcessPorts">,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): { readonly claimMemory: ClaimMemory; readonly idle: () => Promise<void> } {
  const file = openClaimFile(claimsFile, log);
  const ages = new ClaimAges(claimsIn(file), () => clock.nowMs() / 1_000);
  const listSockets = nodeProcessPorts === "serve" ? () => none : listListeningSockets;
  const admission = new PortAdmission(ages, listSockets);
  const keep = (record: RecordedClaims): void => keepClaims(file, record);
  return { claimMemory: { ages, admission, keep }, idle: () => file.idle() };
}

export function openClaimFile(path: string, log: Logger): StateFile {
  return new StateFile(path, {
    log,
    bootClock: everyBoot,
    effect: "the oldest Service owns a contested external IP",
    failureEvent: "Cannot save the claim times of external IPs; a restart uses the age of Services",
  });
}

export function claimsIn({ content: { claims, refused } }: StateFile): RecordedClaims {
  return { seen: numbersIn(claims), refused: new Set(textsIn(refused)) };
}

export function keepClaims(file: StateFile, { seen, refused }: RecordedClaims): void {
  const isEmpty = seen.size + refused.size === 0;
  const claims = bounded([...seen], ([id]) => id);
  const texts = bounded([...refused], (id) => id);
  file.keep({
    claims: () => (isEmpty ? undefined : Object.fromEntries(claims)),
    refused: () => (isEmpty ? undefined : texts),
  });
}

function bounded<T>(entries: readonly T[], textOf: (entry: T) => string): readonly T[] {
  let length = 0;
  return entries.filter((entry) => {
    length += textOf(entry).length;
    return length <= mostLength / 2;
  });
}
