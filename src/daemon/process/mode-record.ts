/**
 * The file that says which modes ran on this node since it was last put in order: chains of mode iptables are called as
 * kube-proxy's, and only this file says after a change of mode that they are ours to remove.
 */
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import {
  type BootClock,
  BootFileWriter,
  pathBeside,
  readBootFile,
  reportBroken,
} from "./boot-file.ts";

type Mode = Config["mode"];

const modes: readonly Mode[] = ["ipvs", "iptables", "userspace"];

export function modeRecordPath(drainStartTimesPath: string): string {
  return pathBeside(drainStartTimesPath, "modes");
}

/** Modes of earlier runs, from a file that is replaced as a whole. */
export class ModeRecord {
  /** May have left something in the kernel. */
  readonly earlier: ReadonlySet<Mode>;
  readonly #writer: BootFileWriter;

  /** Reads the file. `path` empty: there is none. */
  constructor(path: string, parts: { readonly log: Logger; readonly bootClock: BootClock }) {
    const recalled = readBootFile(path, parts.bootClock);
    reportBroken(recalled, parts.log, "chains of an earlier mode may stay: kube-ipvs --cleanup");
    this.earlier = modesFrom(recalled.content["modes"]);
    const failureEvent = "Cannot save the modes of this node, a change of mode may leave chains";
    this.#writer = new BootFileWriter(path, { ...parts, failureEvent });
  }

  /** To be called before anything is written to the kernel. */
  begin(mode: Mode): void {
    this.#keep(new Set([...this.earlier, mode]));
  }

  /** What the other modes left is gone. */
  tidied(mode: Mode): void {
    this.#keep(new Set([mode]));
  }

  /** Resolves when everything given so far is in the file, or could not be written. */
  idle(): Promise<void> {
    return this.#writer.idle();
  }

  #keep(ran: ReadonlySet<Mode>): void {
    this.#writer.write(() => ({ modes: [...ran] }));
  }
}

function modesFrom(value: unknown): ReadonlySet<Mode> {
  return new Set(Array.isArray(value) ? modes.filter((mode) => value.includes(mode)) : []);
}
