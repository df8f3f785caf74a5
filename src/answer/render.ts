/** Prints answers in the requested format: JSON and YAML as in kubectl, or text of a given width. Pure. */
import { escapeUnprintable } from "../base/printable.ts";
import { yamlText } from "../base/yaml.ts";

/** Properties of the output. */
export interface Form {
  /** Width in columns. Unlimited if undefined. */
  readonly width?: number | undefined;
  readonly hasColor?: boolean;
}

/** One line, or a function that returns lines for a given form. */
export type Block = string | Lines;
export type Lines = (form: Form) => readonly string[];

/** The text form of one kind of answer. */
export interface View<A> {
  /** Returns the text, with all details if `isWide`. */
  readonly blocks: (answer: A, isWide: boolean) => readonly Block[];
  /** The lines for `-o name`. */
  readonly names?: (answer: A) => readonly string[];
}

/** Returns the answer as printed, with a line end. */
export function rendered<A>(answer: A, view: View<A>, format: string, form: Form): string {
  if (format === "json") return `${JSON.stringify(answer, undefined, 2)}\n`;
  if (format === "yaml") return yamlText(answer);
  const isWide = format === "wide";
  const lines =
    format === "name" && view.names !== undefined
      ? view.names(answer)
      : linesOf(view.blocks(answer, isWide), isWide ? { ...form, width: undefined } : form);
  return lines.map((line) => `${line}\n`).join("");
}

/** Wraps texts to the form's width. A wrapped text keeps its indentation. */
export function linesOf(blocks: readonly Block[], form: Form): readonly string[] {
  return blocks.flatMap((block) => {
    if (typeof block !== "string") return block(form);
    const [margin = ""] = /^ */.exec(block) ?? [];
    return hanging(margin, block.slice(margin.length), form);
  });
}

const indent = "  ";

export function indented(...blocks: readonly Block[]): Lines {
  return ({ width, ...form }) => {
    const inner = { ...form, width: width === undefined ? undefined : width - indent.length };
    return linesOf(blocks, inner).map((line) => indent + line);
  };
}

/** An empty line, a title and indented blocks. Returns no lines if the blocks are empty. */
export function section(title: string, ...blocks: readonly Block[]): Lines {
  return (form) => {
    const lines = indented(...blocks)(form);
    return lines.length === 0 ? [] : ["", ...linesOf([title], form), ...lines];
  };
}

/** A title, its text, and objects to list below it. */
export type Fact = readonly [title: string, text: string, details?: readonly string[]];

/** Maximum number of objects listed below one fact. */
const maxDetails = 10;

export function facts(rows: readonly Fact[]): Block {
  const offset = Math.max(...rows.map(([title]) => title.length)) + indent.length;
  return (form) =>
    rows.flatMap(([title, text, details = []]) => {
      const more = details.length - maxDetails;
      const rest = more > 0 ? [`and ${more} more (-o json)`] : [];
      return [
        ...hanging(title.padEnd(offset), text, form),
        ...indented(...details.slice(0, maxDetails), ...rest)(form),
      ];
    });
}

export interface Column<Row> {
  readonly title: string;
  /** The cell's value. Empty and undefined are shown as `-`. */
  readonly cell: (row: Row) => string | number | undefined;
  /** Whether to right-align the column. By default, columns with a numeric cell are right-aligned. */
  readonly isNumber?: true;
  /** Keeps the column's width constant while its figures change. */
  readonly minWidth?: number;
  /**
   * If the table is too wide, columns are dropped in the order of this number, the largest first. A column without it
   * is kept.
   */
  readonly drop?: number;
  /** Select Graphic Rendition code of ECMA-48. */
  readonly color?: (row: Row) => number;
}

export interface TableOptions<Row> {
  /** Lines below a row, under the last column. */
  readonly advice?: (row: Row) => readonly string[];
  /** Blocks below a row. A table with details repeats its headings above each row. */
  readonly details?: (row: Row) => readonly Block[];
}

/** Minimum width of wrapped text, such as the last column of a table. */
const narrowestText = 20;

/**
 * Formats a table. Columns that do not fit are dropped and listed in a last line. If the other columns do not fit either,
 * each cell has its own line.
 */
export function table<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { advice = () => [], details }: TableOptions<Row> = {},
): Lines {
  return (form) => {
    const all = columns.map((column) => filled(column, rows));
    const dropped = droppedOf(all, form.width);
    const shown = all.filter((column) => !dropped.includes(column));
    const offset = shown.slice(0, -1).reduce((sum, { width }) => sum + width + indent.length, 0);
    const lastWidth = Math.min(shown.at(-1)?.width ?? 0, narrowestText);
    if (offset + lastWidth > (form.width ?? Number.POSITIVE_INFINITY))
      return rows.flatMap((row, index) => [
        ...(index === 0 ? [] : [""]),
        ...all
          .filter(({ texts }) => texts[index] !== "-")
          .flatMap(({ column, texts }) => hanging(`${column.title}: `, texts[index] ?? "", form)),
        ...advice(row).flatMap((text) => hanging(indent, text, form)),
        ...linesOf(details?.(row) ?? [], form),
      ]);
    const line = (textOf: (column: Filled<Row>) => string): readonly string[] => {
      const cells = shown.map((column) => padded(column, textOf(column)));
      const last = cells.pop()?.trimEnd() ?? "";
      return hanging([...cells, ""].join(indent), last, form).map((text) => text.trimEnd());
    };
    const titles = line(({ column }) => column.title);
    const lines = rows.flatMap((row, index) => {
      const [head = "", ...rest] = line(({ texts }) => texts[index] ?? "");
      const below = details?.(row);
      return [
        ...(below === undefined ? [] : [...(index === 0 ? [] : [""]), ...titles]),
        form.hasColor === true ? colored(head, row, shown[0]) : head,
        ...rest,
        ...advice(row).flatMap((text) => hanging(" ".repeat(offset), text, form)),
        ...(below === undefined ? [] : linesOf(below, form)),
      ];
    });
    const names = dropped.map(({ column }) => column.title).join(", ");
    const note = `(not shown: ${names}; -o wide shows all columns)`;
    return [
      ...(details === undefined ? titles : []),
      ...lines,
      ...(names === "" ? [] : hanging("", note, form)),
    ];
  };
}

/** A column with its text in each row. */
interface Filled<Row> {
  readonly column: Column<Row>;
  readonly texts: readonly string[];
  readonly width: number;
  readonly isNumber: boolean;
}

function filled<Row>(column: Column<Row>, rows: readonly Row[]): Filled<Row> {
  const cells = rows.map(column.cell);
  const texts = cells.map((cell) => escapeUnprintable(String(cell ?? "")) || "-");
  let width = Math.max(column.title.length, column.minWidth ?? 0);
  for (const text of texts) width = Math.max(width, text.length);
  const isNumber = column.isNumber ?? cells.some((cell) => typeof cell === "number");
  return { column, texts, width, isNumber };
}

/** Returns the smallest set of columns to drop so that the table fits. */
function droppedOf<Row>(
  columns: readonly Filled<Row>[],
  width: number | undefined,
): readonly Filled<Row>[] {
  let total = columns.reduce((sum, column) => sum + column.width + indent.length, -indent.length);
  const last = columns.at(-1);
  // The last column is wrapped before other columns are dropped.
  if (last !== undefined) total -= Math.max(0, last.width - narrowestText);
  const dropped = columns
    .filter(({ column }) => column.drop !== undefined)
    .sort((one, other) => (other.column.drop ?? 0) - (one.column.drop ?? 0));
  return dropped.filter(({ width: own }) => {
    const isTooWide = width !== undefined && total > width;
    if (isTooWide) total -= own + indent.length;
    return isTooWide;
  });
}

function padded<Row>({ width, isNumber }: Filled<Row>, text: string): string {
  return isNumber ? text.padStart(width) : text.padEnd(width);
}

/**
 * Wraps a text after `head`. The lines after the first are indented by the length of `head`. If little room is left, the
 * text starts below `head`.
 */
function hanging(head: string, text: string, form: Form): readonly string[] {
  const { width = Number.POSITIVE_INFINITY } = form;
  const shown = escapeUnprintable(text);
  const room = width - head.length;
  if (room >= Math.min(narrowestText, shown.length)) {
    const margin = " ".repeat(head.length);
    return wrapped(shown, room).map((line, index) => (index === 0 ? head : margin) + line);
  }
  const margin = " ".repeat(Math.max(0, Math.min(indent.length, width - narrowestText)));
  const below = wrapped(shown, Math.max(1, width - margin.length)).map((line) => margin + line);
  return head.trim() === "" ? below : [...wrapped(head.trimEnd(), width), ...below];
}

/** Wraps text into lines of at most `width` characters: at spaces, or within a word that is longer than a line. */
function wrapped(text: string, width: number): readonly string[] {
  const lines = [""];
  for (const word of text.length <= width ? [text] : text.split(" ")) {
    const line = lines.at(-1) ?? "";
    if (line !== "" && line.length + 1 + word.length <= width) {
      lines[lines.length - 1] = `${line} ${word}`;
      continue;
    }
    if (line === "") lines.pop();
    const pieces = Math.max(1, Math.ceil(word.length / width));
    for (let piece = 0; piece < pieces; piece += 1)
      lines.push(word.slice(piece * width, (piece + 1) * width));
  }
  return lines;
}

function colored<Row>(line: string, row: Row, first: Filled<Row> | undefined): string {
  const code = first?.column.color?.(row);
  if (first === undefined || code === undefined) return line;
  return `\u001b[${code}m${line.slice(0, first.width)}\u001b[0m${line.slice(first.width)}`;
}
