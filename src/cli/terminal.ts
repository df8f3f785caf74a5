/** The terminal that stdout may be. Pure. */

type Stdout = Pick<Partial<NodeJS.WriteStream>, "isTTY" | "columns">;
type Environment = Readonly<Record<string, string | undefined>>;

/** COLUMNS wins over what the terminal says of itself; undefined without a terminal, so that pipes get whole lines. */
export function terminalWidth(stdout: Stdout, environment: Environment): number | undefined {
  if (stdout.isTTY !== true) return undefined;
  const given = Number(environment["COLUMNS"]);
  return Number.isSafeInteger(given) && given > 0 ? given : stdout.columns;
}

/** NO_COLOR turns colors off unless it is empty: https://no-color.org. */
export function hasColors(stdout: Stdout, environment: Environment): boolean {
  return stdout.isTTY === true && (environment["NO_COLOR"] ?? "") === "";
}
