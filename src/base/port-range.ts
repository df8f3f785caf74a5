/** Port ranges of a Service, from its annotation. Pure. */

/** Ports from `first` to `last`, both included. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** Maximum number of ranges. Each range costs a rule per address and protocol. */
const mostRanges = 16;

/** Parses ranges such as `5060,10000-20000`. Undefined if the text is invalid or if ranges overlap. */
export function parsePortRanges(text: string): readonly PortRange[] | undefined {
  const ranges = text.split(",").map((part): PortRange | undefined => {
    const [, first, last = first] = /^\s*(\d{1,5})(?:-(\d{1,5}))?\s*$/.exec(part) ?? [];
    const range = { first: Number(first), last: Number(last) };
    return range.first >= 1 && range.first <= range.last && range.last <= 65_535
      ? range
      : undefined;
  });
  const valid = ranges.filter((range) => range !== undefined);
  if (valid.length < ranges.length || ranges.length > mostRanges) return undefined;
  const sorted = valid.sort((one, other) => one.first - other.first);
  const areApart = sorted.every(({ first }, index) => first > (sorted[index - 1]?.last ?? 0));
  return areApart ? sorted : undefined;
}

export function isInRanges(port: number, ranges: readonly PortRange[]): boolean {
  return ranges.some(({ first, last }) => port >= first && port <= last);
}

export function portRangeText({ first, last }: PortRange): string {
  return first === last ? String(first) : `${first}-${last}`;
}
