import { fieldGroups, flagOnlyFields } from "../config/fields.ts";
import type { FlagValues } from "../config/gather-settings.ts";
import { kinds } from "../config/kinds.ts";

/** A command-line flag, derived from the table of settings. */
export interface Flag {
  /** The name without dashes. */
  readonly name: string;
  readonly alias?: string;
  readonly short?: string;
  readonly isBoolean: boolean;
  /** The placeholder for the value in --help. */
  readonly placeholder: string;
  readonly help: string;
  readonly default: string;
  readonly group: string;
}

/** All flags except --help and --version, in the order of --help. */
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

/** Returns each flag's given or default value. Masks credentials in URLs. */
export function shownFlags(values: FlagValues): ReadonlyMap<string, string> {
  return new Map(
    flags.map((flag) => {
      const value = values.get(flag.name)?.join(",") ?? flag.default;
      return [flag.name, value.replaceAll(/\/\/[^/@\s]*@/g, "//***@")];
    }),
  );
}
