import type { Flag } from "./flags.ts";

/**
 * Brings flags as Go programs take them into one form, `--name=value`: `--name value`, `--switch`,
 * `-v 2`, `-v=2`, `-v2`; underscores in names stand for hyphens, and a second name for the first. What is no flag of ours stays as it is.
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
    // Apart from its value, so that a message about an unknown flag names the flag alone.
    if (flag === undefined) result.push(`--${name}`, ...(value === undefined ? [] : [value]));
    else if (value !== undefined) result.push(`--${flag.name}=${value}`);
    else if (flag.isBoolean) result.push(`--${flag.name}=true`);
    else if (rest.length === 0) result.push(`--${flag.name}`);
    else result.push(`--${flag.name}=${rest.shift()}`);
  }
  return result;
}

/** `name` undefined: no flag. */
function splitFlag(
  arg: string,
  nameOfShort: ReadonlyMap<string, string>,
): { readonly name: string | undefined; readonly value: string | undefined } {
  const [, written, value] = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? [];
  if (written !== undefined) return { name: written.replaceAll("_", "-"), value };
  const [, letter = "", attached] = /^-([A-Za-z])(?:=?(.+))?$/s.exec(arg) ?? [];
  return { name: nameOfShort.get(letter), value: attached };
}
