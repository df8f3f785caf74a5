/** Says to netlink-fault.c, in front of a running program, what the kernel is to refuse, or when to die. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ProgramStart, World } from "./world.ts";

export const library: string = join(import.meta.dirname, "../../build/test/netlink-fault.so");
const file = "/run/faults/netlink-fault";
const hitsFile = `${file}.hits`;

/** A program with the library, which does nothing until it is asked to. */
export const underFaults: ProgramStart = {
  environment: { LD_PRELOAD: [library, ...otherLibraries()].join(":"), NETLINK_FAULT: file },
};

function otherLibraries(): readonly string[] {
  const others = process.env["LD_PRELOAD"];
  return others === undefined ? [] : [others];
}

/** The rows after one that did this go on with the library. */
export async function putUnderFaults(world: World): Promise<void> {
  if (readFileSync(`/proc/${world.program.pid}/maps`, "utf8").includes(library)) return;
  await world.restartProgram(underFaults);
}

/** `protocol`, `subsystem`: linux/netlink.h, linux/netfilter/nfnetlink.h; -1: the protocol has none. */
export interface Refusal {
  readonly protocol: number;
  readonly subsystem: number;
  readonly errno: number;
  /** Of the requests. */
  readonly percent: number;
  /** Only requests for a change that carry these bytes: an address, say. Absent: all. */
  readonly content?: Uint8Array;
}

export function rejectRequests(refusal: Refusal): void {
  rmSync(hitsFile, { force: true });
  writeFileSync(file, refusalText(refusal));
}

/** The content of the file that the library reads. */
export function refusalText({ protocol, subsystem, errno, percent, content }: Refusal): string {
  const hex = content === undefined ? "" : ` ${Buffer.from(content).toString("hex")}`;
  return `${protocol} ${subsystem} ${errno} ${percent}${hex}\n`;
}

/** The program dies when this write of the many from now on is done. */
export function dieAfterWrite(number: number): void {
  writeFileSync(file, `kill ${number}\n`);
}

export function endFaults(): void {
  rmSync(file);
}

/** How many requests were refused since {@link rejectRequests}. */
export function rejectedRequests(): number {
  return existsSync(hitsFile) ? statSync(hitsFile).size : 0;
}
