/** The index of an archive of `kube-ipvs sysdump`, and its text form. Pure. */
import type { Envelope } from "./answers.ts";
import { facts, section, table, type View } from "./render.ts";

export interface Sysdump extends Envelope<"Sysdump"> {
  /** The version of the program that wrote the archive. */
  readonly program: string;
  /** RFC 3339. */
  readonly time: string;
  /** Whether addresses and names were replaced. */
  readonly isRedacted: boolean;
  readonly parts: readonly SysdumpPart[];
}

export interface SysdumpPart {
  /** The name of the file in the archive. */
  readonly name: string;
  /** Size of the file; 0 if there is none. */
  readonly bytes: number;
  readonly milliseconds: number;
  /** Why the part is missing or incomplete. */
  readonly note?: string;
}

export const sysdumpView: View<Sysdump> = {
  blocks: ({ program, time, isRedacted, parts }) => [
    facts([
      ["Program", `kube-ipvs ${program}`],
      ["Time", time],
      ["Redacted", isRedacted ? "addresses and names are replaced" : "no"],
    ]),
    section(
      "Parts",
      table<SysdumpPart>(
        [
          { title: "PART", cell: ({ name }) => name },
          { title: "BYTES", cell: ({ bytes }) => bytes },
          { title: "NOTE", cell: ({ note }) => note },
        ],
        parts,
      ),
    ),
  ],
  names: ({ parts }) => parts.map(({ name }) => name),
};
