/** Properties of the terminal, if stdout is one. Pure. */

type Stdout = Pick<Partial<NodeJS.WriteStream>, "isTTY" | "columns">;
type Environment = Readonly<Record<string, string | undefined>>;

/** The width if a terminal reports none, such as one that was created without a client that has a window. */
const defaultWidth = 80;

/** COLUMNS overrides the terminal's own width. Undefined if stdout is not a terminal, so that pipes get whole lines. */
export function terminalWidth(stdout: Stdout, environment: Environment): number | undefined {
  if (stdout.isTTY !== true) return undefined;
  const given = Number(environment["COLUMNS"]);
  return Number.isSafeInteger(given) && given > 0 ? given : stdout.columns || defaultWidth;
}

/** A non-empty NO_COLOR disables colors: https://no-color.org. */
export function hasColors(stdout: Stdout, environment: Environment): boolean {
  return stdout.isTTY === true && (environment["NO_COLOR"] ?? "") === "";
}
