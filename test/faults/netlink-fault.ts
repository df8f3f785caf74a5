/** Tells netlink-fault.c in a running program which requests to reject, or when to kill the program. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FaultyNode, ProgramStart } from "./faulty-node.ts";

export const library: string = join(import.meta.dirname, "../../build/test/netlink-fault.so");
const file = "/run/faults/netlink-fault";
const hitsFile = `${file}.hits`;

/** Starts a program with the library. The library does nothing until a test requests a fault. */
export const underFaults: ProgramStart = {
  environment: { LD_PRELOAD: [library, ...otherLibraries()].join(":"), NETLINK_FAULT: file },
};

function otherLibraries(): readonly string[] {
  const others = process.env["LD_PRELOAD"];
  return others === undefined ? [] : [others];
}

/** Later rows keep using the library. */
export async function putUnderFaults(node: FaultyNode): Promise<void> {
  if (readFileSync(`/proc/${node.program.pid}/maps`, "utf8").includes(library)) return;
  await node.restartProgram(underFaults);
}

/**
 * `protocol` and `subsystem` are from linux/netlink.h and linux/netfilter/nfnetlink.h. -1 if the protocol has no
 * subsystem.
 */
export interface Refusal {
  readonly protocol: number;
  readonly subsystem: number;
  readonly errno: number;
  /** Percentage of rejected requests. */
  readonly percent: number;
  /** Rejects only changes that contain these bytes, such as an address. Rejects all requests if absent. */
  readonly content?: Uint8Array;
}

export function rejectRequests(refusal: Refusal): void {
  rmSync(hitsFile, { force: true });
  writeFileSync(file, refusalText(refusal));
}

/** The contents of the file that the library reads. */
export function refusalText({ protocol, subsystem, errno, percent, content }: Refusal): string {
  const hex = content === undefined ? "" : ` ${Buffer.from(content).toString("hex")}`;
  return `${protocol} ${subsystem} ${errno} ${percent}${hex}\n`;
}

/** Kills the program after this write, counting from now on. */
export function dieAfterWrite(number: number): void {
  writeFileSync(file, `kill ${number}\n`);
}

export function endFaults(): void {
  rmSync(file);
}

/** Number of rejected requests since {@link rejectRequests}. */
export function rejectedRequests(): number {
  return existsSync(hitsFile) ? statSync(hitsFile).size : 0;
}
