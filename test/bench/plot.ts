/** Line plots as SVG: small, readable on light and dark pages, without a library. */

export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Plot {
  readonly title: string;
  readonly xLabel: string;
  /** Label of the y axis with its unit. */
  readonly yLabel: string;
  readonly series: readonly Series[];
  /** A labeled horizontal line, such as a target. */
  readonly limit?: { readonly y: number; readonly text: string };
}

const width = 720;
const height = 400;
const frame = { left: 72, right: 24, top: 56, bottom: 60 };
const lineColors = ["line1", "line2", "line3", "line4"];

/** Both color schemes set their own background, because a page may be dark on a light system and vice versa. */
const style = `
  .page { fill: #ffffff }
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 16px; font-weight: 600 }
  .axis { stroke: #57606a; stroke-width: 1 }
  .grid { stroke: #8c959f; stroke-opacity: .25; stroke-width: 1 }
  .limit { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 6 4 }
  .limit-text { fill: #cf222e; font-size: 12px }
  .line { fill: none; stroke-width: 2.25; stroke-linejoin: round }
  .line1 { stroke: #0969da } .dot1 { fill: #0969da }
  .line2 { stroke: #bc4c00 } .dot2 { fill: #bc4c00 }
  .line3 { stroke: #1a7f37 } .dot3 { fill: #1a7f37 }
  .line4 { stroke: #8250df } .dot4 { fill: #8250df }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 }
    text { fill: #e6edf3 }
    .axis { stroke: #9198a1 }
    .limit { stroke: #ff7b72 } .limit-text { fill: #ff7b72 }
    .line1 { stroke: #58a6ff } .dot1 { fill: #58a6ff }
    .line2 { stroke: #f0883e } .dot2 { fill: #f0883e }
    .line3 { stroke: #3fb950 } .dot3 { fill: #3fb950 }
    .line4 { stroke: #bc8cff } .dot4 { fill: #bc8cff }
  }
`;

interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

/** Returns the complete picture. */
export function plotSvg(plot: Plot): string {
  const points = plot.series.flatMap((series) => series.points);
  const x = scale(0, Math.max(...points.map(([value]) => value)), [
    frame.left,
    width - frame.right,
  ]);
  const highest = Math.max(...points.map(([, value]) => value), plot.limit?.y ?? 0);
  const y = scale(0, highest, [height - frame.bottom, frame.top]);
  const parts = [
    `<style>${style}</style>`,
    `<rect class="page" width="${width}" height="${height}" rx="8"/>`,
    `<text class="title" x="${frame.left}" y="24">${escapeXml(plot.title)}</text>`,
    ...axes(plot, x, y),
    ...limitLine(plot, y),
    ...plot.series.flatMap((series, at) => seriesLines(series, at, x, y)),
    ...legend(plot.series),
  ];
  const size = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="${escapeXml(plot.title)}">\n${parts.join("\n")}\n</svg>\n`;
}

/** Returns a scale from `low` to a round number not below `high`, in steps of 1, 2 or 5 times a power of ten. */
export function scale(low: number, high: number, [from, to]: readonly [number, number]): Scale {
  const rough = (high - low || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const top = low + Math.ceil((high - low || 1) / step - 1e-9) * step;
  const count = Math.round((top - low) / step);
  return {
    at: (value) => from + ((value - low) / (top - low)) * (to - from),
    ticks: Array.from({ length: count + 1 }, (_, at) => low + at * step),
  };
}

function axes({ xLabel, yLabel }: Plot, x: Scale, y: Scale): readonly string[] {
  const bottom = height - frame.bottom;
  const middle = (frame.top + bottom) / 2;
  return [
    ...y.ticks.flatMap((tick) => [
      `<line class="grid" x1="${frame.left}" x2="${width - frame.right}" y1="${round(y.at(tick))}" y2="${round(y.at(tick))}"/>`,
      `<text x="${frame.left - 8}" y="${round(y.at(tick) + 4)}" text-anchor="end">${tickText(tick)}</text>`,
    ]),
    ...x.ticks.flatMap((tick) => [
      `<line class="axis" x1="${round(x.at(tick))}" x2="${round(x.at(tick))}" y1="${bottom}" y2="${bottom + 5}"/>`,
      `<text x="${round(x.at(tick))}" y="${bottom + 20}" text-anchor="middle">${tickText(tick)}</text>`,
    ]),
    `<line class="axis" x1="${frame.left}" x2="${width - frame.right}" y1="${bottom}" y2="${bottom}"/>`,
    `<text x="${(frame.left + width - frame.right) / 2}" y="${height - 14}" text-anchor="middle">${escapeXml(xLabel)}</text>`,
    `<text x="18" y="${middle}" text-anchor="middle" transform="rotate(-90 18 ${middle})">${escapeXml(yLabel)}</text>`,
  ];
}

function limitLine({ limit }: Plot, y: Scale): readonly string[] {
  if (limit === undefined) return [];
  const at = round(y.at(limit.y));
  return [
    `<line class="limit" x1="${frame.left}" x2="${width - frame.right}" y1="${at}" y2="${at}"/>`,
    `<text class="limit-text" x="${width - frame.right}" y="${round(y.at(limit.y) - 6)}" text-anchor="end">${escapeXml(limit.text)}</text>`,
  ];
}

function seriesLines({ points, name }: Series, at: number, x: Scale, y: Scale): readonly string[] {
  const number = (at % lineColors.length) + 1;
  const places = points.map(([left, top]) => [round(x.at(left)), round(y.at(top))] as const);
  return [
    `<polyline class="line line${number}" points="${places.map((place) => place.join(",")).join(" ")}"/>`,
    ...places.map(([left, top], index) => {
      const [services = 0, value = 0] = points[index] ?? [];
      const words = `${name}, ${tickText(services)}: ${tickText(value)}`;
      return `<circle class="dot${number}" cx="${left}" cy="${top}" r="3.5"><title>${escapeXml(words)}</title></circle>`;
    }),
  ];
}

function legend(series: readonly Series[]): readonly string[] {
  let left = frame.left;
  return series.flatMap(({ name }, at) => {
    const number = (at % lineColors.length) + 1;
    const parts = [
      `<line class="line line${number}" x1="${left}" x2="${left + 22}" y1="40" y2="40"/>`,
      `<text x="${left + 28}" y="44">${escapeXml(name)}</text>`,
    ];
    left += 28 + name.length * 7.5 + 24;
    return parts;
  });
}

function tickText(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 2 });
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escapeXml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
