/** Parses the command lines of the programs in this folder. All have --kubernetes FOLDER and --stay. */
import { type ParseArgsConfig, parseArgs } from "node:util";

export interface Option {
  readonly initial: string;
  /** The valid values. If absent, any text is valid. */
  readonly form?: { readonly name: string; readonly isValid: (value: string) => boolean };
}

export type Options<Name extends string> = Readonly<Record<Name | "kubernetes", string>> & {
  /** Keeps the cluster until Ctrl-C. */
  readonly stay: boolean;
};

export function text(initial = ""): Option {
  return { initial };
}

export function positiveInteger(initial: number): Option {
  const form = {
    name: "a positive integer",
    isValid: (value: string) => /^[1-9]\d*$/.test(value),
  };
  return { initial: String(initial), form };
}

/** The first value is the default. */
export function oneOf(...values: readonly [string, ...string[]]): Option {
  const form = { name: values.join(" or "), isValid: (value: string) => values.includes(value) };
  return { initial: values[0], form };
}

/** A comma-separated list of names. By default, all of them. */
export function someOf(names: readonly string[]): Option {
  const form = {
    name: `of ${names.join()}`,
    isValid: (value: string) => value.split(",").every((name) => names.includes(name)),
  };
  return { initial: names.join(), form };
}

/** Throws an error that names the first invalid value. */
export function readOptions<Name extends string>(
  args: readonly string[],
  known: Readonly<Record<Name, Option>>,
): Options<Name> {
  const named = Object.entries<Option>({ kubernetes: text(), ...known });
  const options: NonNullable<ParseArgsConfig["options"]> = {
    stay: { type: "boolean", default: false },
  };
  for (const [name, { initial }] of named) options[name] = { type: "string", default: initial };
  const { values } = parseArgs({ args: [...args], options });
  for (const [name, { form }] of named) {
    const value = String(values[name]);
    if (form?.isValid(value) === false) throw new Error(`--${name}=${value}: must be ${form.name}`);
  }
  return values as unknown as Options<Name>;
}
