/** docs/compatibility.md: what of kube-proxy 1.36 is here, item by item. */
import { flagsAndFields } from "./flags-and-fields.ts";
import { kernelObjects } from "./kernel-objects.ts";
import { code, documentOf, table } from "./markdown.ts";
import { surfaces } from "./surfaces.ts";

/** One thing that kube-proxy has: a flag, a field, a metric, an endpoint, an event, a chain. */
export interface CompatibilityRow {
  readonly name: string;
  /** Absent: the same. */
  readonly noEffect?: string;
  readonly differs?: string;
}

/** Things of one kind. */
export interface CompatibilitySection {
  readonly title: string;
  /** What a row names: `Flag`. */
  readonly head: string;
  /** Sentences in front of the table. */
  readonly text?: string;
  readonly rows: readonly CompatibilityRow[];
}

/** In the order of the document; whoever adds a kind of thing adds a file beside this one. */
const sections: readonly CompatibilitySection[] = [
  ...flagsAndFields,
  ...surfaces,
  ...kernelObjects,
];

export function compatibilityDocument(): string {
  return documentOf([
    ["# Compatibility with kube-proxy 1.36 in mode ipvs"],
    [
      "Written by `make docs` from the tables that the program itself works with. «same»: as kube-proxy does it.",
      "«accepted, no effect»: it may stay in the configuration and changes nothing. «differs»: it works in another",
      "way, for the reason given.",
    ],
    ...sections.flatMap(sectionParts),
  ]);
}

function sectionParts({
  title,
  head,
  text,
  rows,
}: CompatibilitySection): readonly (readonly string[])[] {
  const counted = `${rows.length} in all, ${rows.filter(isSame).length} the same.`;
  const lines = rows.map((row) => [code(row.name), status(row)]);
  return [
    [`## ${title}`],
    [text === undefined ? counted : `${text} ${counted}`],
    table([head, "Here"], lines),
  ];
}

function isSame({ noEffect, differs }: CompatibilityRow): boolean {
  return noEffect === undefined && differs === undefined;
}

function status({ noEffect, differs }: CompatibilityRow): string {
  if (noEffect !== undefined) return `accepted, no effect: ${noEffect}`;
  return differs === undefined ? "same" : `differs: ${differs}`;
}
