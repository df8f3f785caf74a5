/**
 * The file that says when claims of external and load-balancer IPs were first seen: docs/decisions/0020. It outlives a
 * boot, unlike the records of kernel state.
 */
import type { Clock } from "../../base/clock.ts";
import { isRecord } from "../../base/is-record.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import type { Config } from "../../config/config.ts";
import { listListeningSockets } from "../../kernel/listening-sockets.ts";
import { ClaimAges, type RecordedClaims } from "../../plan/claims/claim-ages.ts";
import type { ClaimMemory } from "../../plan/claims/claim-memory.ts";
import { PortAdmission } from "../../plan/claims/port-admission.ts";
import { type BootClock, BootFileWriter, readBootFile, reportBroken } from "./boot-file.ts";

/** A claim has up to 400 characters, and a file of 2 MiB is not read. */
const mostLength = 2 ** 20;

const everyBoot: BootClock = { bootId: "every boot", uptimeMs: () => 0 };

/** The claims known on this node. They are recorded in the file that the configuration names. */
export function openClaimMemory(
  { claimsPath, nodeProcessPorts }: Pick<Config, "claimsPath" | "nodeProcessPorts">,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): { readonly claimMemory: ClaimMemory; readonly idle: () => Promise<void> } {
  const file = new ClaimRecordFile(claimsPath, { log });
  const ages = new ClaimAges(file.recorded, () => clock.nowMs() / 1_000);
  const listSockets = nodeProcessPorts === "serve" ? () => none : listListeningSockets;
  return {
    claimMemory: {
      ages,
      admission: new PortAdmission(ages, listSockets),
      keep: (record) => file.keep(record),
    },
    idle: () => file.idle(),
  };
}

export class ClaimRecordFile {
  readonly recorded: RecordedClaims;
  readonly #writer: BootFileWriter;

  /** Reads the file. `path` empty: there is none. */
  constructor(path: string, { log }: { readonly log: Logger }) {
    const recalled = readBootFile(path, everyBoot);
    reportBroken(recalled, log, "the age of a Service decides which of several has an external IP");
    const { claims, refused } = recalled.content;
    this.recorded = { seen: seenFrom(claims), refused: new Set(textsFrom(refused)) };
    const failureEvent = "Cannot save when external IPs were claimed, a restart relies on Services";
    this.#writer = new BootFileWriter(path, { log, bootClock: everyBoot, failureEvent });
  }

  keep({ seen, refused }: RecordedClaims): void {
    this.#writer.write(() => {
      if (seen.size + refused.size === 0) return undefined;
      const claims = bounded([...seen], ([id]) => id);
      return { claims: Object.fromEntries(claims), refused: bounded([...refused], (id) => id) };
    });
  }

  /** Resolves when everything given so far is in the file, or could not be written. */
  idle(): Promise<void> {
    return this.#writer.idle();
  }
}

function bounded<T>(entries: readonly T[], textOf: (entry: T) => string): readonly T[] {
  let length = 0;
  return entries.filter((entry) => {
    length += textOf(entry).length;
    return length <= mostLength / 2;
  });
}

function seenFrom(value: unknown): ReadonlyMap<string, number> {
  if (!isRecord(value)) return new Map();
  return new Map(
    Object.entries(value).filter((entry): entry is [string, number] => Number.isFinite(entry[1])),
  );
}

function textsFrom(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}
