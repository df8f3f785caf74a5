import type { Flag } from "./flags.ts";

/**
 * Rewrites flags in the forms that Go programs accept (`--name value`, `--switch`, `-v 2`, `-v=2`, `-v2`) as
 * `--name=value`. Replaces underscores in names with hyphens, and aliases with names. Other arguments remain unchanged.
 */
export function normaliseFlags(
  args: readonly string[],
  flags: readonly Pick<Flag, "name" | "alias" | "short" | "isBoolean">[],
): readonly string[] {
  const byName = new Map(
    flags.flatMap((flag) =>
      [flag.name, flag.alias ?? flag.name].map((name) => [name, flag] as const),
    ),
  );
  const nameOfShort = new Map(flags.flatMap(({ short, name }) => (short ? [[short, name]] : [])));
  const result: string[] = [];
  const rest = [...args];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === "--") return [...result, arg, ...rest];
    const { name, value } = splitFlag(arg, nameOfShort);
    if (name === undefined) {
      result.push(arg);
      continue;
    }
    const flag = byName.get(name);
    // Separates an unknown flag from its value, so that the error message names only the flag.
    if (flag === undefined) result.push(`--${name}`, ...(value === undefined ? [] : [value]));
    else if (value !== undefined) result.push(`--${flag.name}=${value}`);
    else if (flag.isBoolean) result.push(`--${flag.name}=true`);
    else if (rest.length === 0) result.push(`--${flag.name}`);
    else result.push(`--${flag.name}=${rest.shift()}`);
  }
  return result;
}

/** Splits a flag into name and value. `name` is undefined if the argument is not a flag. */
function splitFlag(
  arg: string,
  nameOfShort: ReadonlyMap<string, string>,
): { readonly name: string | undefined; readonly value: string | undefined } {
  const [, written, value] = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? [];
  if (written !== undefined) return { name: written.replaceAll("_", "-"), value };
  const [, letter = "", attached] = /^-([A-Za-z])(?:=?(.+))?$/s.exec(arg) ?? [];
  return { name: nameOfShort.get(letter), value: attached };
}
