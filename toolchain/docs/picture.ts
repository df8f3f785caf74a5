/** A picture of a terminal (SVG 1.1) with commands from docs/quick-start.md, which a test runs in the lab. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export type Theme = "light" | "dark";

interface Colors {
  readonly background: string;
  readonly text: string;
  readonly prompt: string;
  readonly verdict: string;
}

/** The contrast is at least 4.5 on both backgrounds (WCAG 2.1, 1.4.3). */
const colorsOf: Readonly<Record<Theme, Colors>> = {
  light: { background: "#f6f8fa", text: "#1f2328", prompt: "#116329", verdict: "#0550ae" },
  dark: { background: "#0d1117", text: "#e6edf3", prompt: "#7ee787", verdict: "#79c0ff" },
};

const lineHeight = 17;
const characterWidth = 7.83;
const margin = 16;
const quickStart: string = join(import.meta.dirname, "../../docs/quick-start.md");
const shown = /^\$ (?:ipvsadm|kube-ipvs services|kube-ipvs explain)\b/;

export function terminalPicture(theme: Theme): string {
  const lines = shownLines(readFileSync(quickStart, "utf8"));
  const colors = colorsOf[theme];
  const columns = Math.max(...lines.map((line) => line.length));
  const width = Math.ceil(columns * characterWidth + 2 * margin);
  const height = lines.length * lineHeight + 2 * margin;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    "<title>ipvsadm, kube-ipvs services and kube-ipvs explain on a node with one Service</title>",
    `<rect width="${width}" height="${height}" rx="8" fill="${colors.background}"/>`,
    `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13" fill="${colors.text}">`,
    ...lines.map((line, index) => textElement(line, index, colors)),
    "</g>",
    "</svg>",
    "",
  ].join("\n");
}

/** The commands in the picture with their output, separated by empty lines. */
function shownLines(document: string): readonly string[] {
  const blocks = [...document.matchAll(/^```console lab\n(.*?)^```$/gms)].map(
    ([, block = ""]) => block,
  );
  const commands = blocks.join("").split(/^(?=\$ )/m);
  return commands
    .filter((command) => shown.test(command))
    .flatMap((command, index) => [...(index === 0 ? [] : [""]), ...command.trimEnd().split("\n")]);
}

function textElement(line: string, index: number, { prompt, verdict }: Colors): string {
  const y = margin + (index + 0.75) * lineHeight;
  const fill = line.startsWith("$ ")
    ? ` fill="${prompt}"`
    : line.startsWith("Packets ")
      ? ` fill="${verdict}" font-weight="bold"`
      : "";
  return `<text x="${margin}" y="${y}" xml:space="preserve"${fill}>${escaped(line)}</text>`;
}

function escaped(line: string): string {
  return line.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
