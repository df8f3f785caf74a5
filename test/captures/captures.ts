/** Reads the recordings in this folder, which contain the datagrams that a tool sent and the kernel's answers. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Datagram {
  readonly direction: "sent" | "received";
  readonly bytes: Uint8Array;
}

/** The datagrams of one command, in order. */
export interface Capture {
  readonly name: string;
  readonly datagrams: readonly Datagram[];
}

/** The recordings of `ipvs.txt`, `conntrack.txt` or `conntrack-zones.txt`. */
export function readCaptures(facility: string): readonly Capture[] {
  const text = readFileSync(join(import.meta.dirname, `${facility}.txt`), "utf8");
  const sections = text.split(/^## /m).slice(1);
  return sections.map((section) => {
    const [name = "", ...lines] = section.split("\n");
    return { name, datagrams: lines.flatMap(readLine) };
  });
}

/** Returns one recording. Throws if no recording has that name. */
export function readCapture(facility: string, name: string): Capture {
  const capture = readCaptures(facility).find((candidate) => candidate.name === name);
  if (capture === undefined) throw new Error(`No recording ${name} in ${facility}.txt`);
  return capture;
}

/** Concatenates all datagrams in one direction, as a socket's reply to one request would be. */
export function bytesOf(capture: Capture, direction: Datagram["direction"]): Uint8Array {
  const parts = capture.datagrams.filter((datagram) => datagram.direction === direction);
  return new Uint8Array(Buffer.concat(parts.map(({ bytes }) => bytes)));
}

/** Returns the same messages with a different sequence number. */
export function withSequence(bytes: Uint8Array, sequence: number): Uint8Array {
  const copy = bytes.slice();
  const view = new DataView(copy.buffer);
  for (let offset = 0; offset < copy.length; ) {
    view.setUint32(offset + 8, sequence, true);
    offset += (view.getUint32(offset, true) + 3) & ~3;
  }
  return copy;
}

function readLine(line: string): Datagram[] {
  const [direction, ...hex] = line.split(" ");
  if (direction !== "sent" && direction !== "received") return [];
  return [{ direction, bytes: Uint8Array.from(hex, (byte) => Number.parseInt(byte, 16)) }];
}
