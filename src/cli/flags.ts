import { fieldGroups, flagOnlyFields } from "../config/fields.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import { kinds } from "../config/kinds.ts";

/** A flag of the command line, from the table of settings. */
export interface Flag {
  /** Without dashes. */
  readonly name: string;
  readonly alias?: string;
  readonly short?: string;
  readonly isBoolean: boolean;
  /** What stands for the value in --help. */
  readonly placeholder: string;
  readonly help: string;
  readonly default: string;
  readonly group: string;
}

/** Every flag but --help and --version, in the order of --help. */
export const flags: readonly Flag[] = [
  { title: "Start", fields: flagOnlyFields },
  ...fieldGroups,
].flatMap(({ title, fields }) =>
  fields.flatMap((field): readonly Flag[] => {
    const { type, placeholder = type } = kinds[field.kind];
    if (field.flag === undefined) return [];
    return [
      {
        name: field.flag,
        ...(field.flagAlias === undefined ? {} : { alias: field.flagAlias }),
        ...(field.shortFlag === undefined ? {} : { short: field.shortFlag }),
        isBoolean: field.kind === "boolean",
        placeholder,
        help: field.help,
        default: field.defaultWithoutFile ?? field.default,
        group: title,
      },
    ];
  }),
);

/** Every flag with the value given or its default; a password inside an address is not shown. */
export function shownFlags(values: FlagValues): ReadonlyMap<string, string> {
  return new Map(
    flags.map((flag) => {
      const value = values.get(flag.name)?.join(",") ?? flag.default;
      return [flag.name, value.replaceAll(/\/\/[^/@\s]*@/g, "//***@")];
    }),
  );
}
