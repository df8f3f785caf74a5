import type { FieldKind, FlagOnlyOption } from "../config/field.ts";
import { fieldGroups, flagOnlyOptions } from "../config/fields.ts";
import type { FlagValues } from "../config/gather-settings.ts";

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

const placeholders: Readonly<Record<FieldKind, string>> = {
  text: "string",
  boolean: "true|false",
  integer: "number",
  float: "number",
  duration: "duration",
  ip: "IP",
  listen: "IP:port",
  texts: "list",
  "comma-list": "list",
  cidrs: "list",
  gates: "list",
  "duration-or-nanoseconds": "duration",
  vmodule: "list",
  quantity: "quantity",
  "port-range": "range",
};

/** Every flag but --help and --version, in the order of --help. */
export const flags: readonly Flag[] = [
  ...flagOnlyOptions.filter(({ noEffect }) => noEffect === undefined).map(flagOnlyOption),
  ...fieldGroups.flatMap(({ title, fields }) =>
    fields.flatMap((field): readonly Flag[] => {
      if (field.flag === undefined) return [];
      const isIgnored = field.noEffect !== undefined;
      return [
        {
          name: field.flag,
          ...(field.flagAlias === undefined ? {} : { alias: field.flagAlias }),
          ...(field.shortFlag === undefined ? {} : { short: field.shortFlag }),
          isBoolean: field.kind === "boolean",
          placeholder: placeholders[field.kind],
          help:
            isIgnored && !title.startsWith("Ignored") ? `${field.help} (no effect)` : field.help,
          default: field.defaultWithoutFile ?? field.default,
          group: title,
        },
      ];
    }),
  ),
  ...flagOnlyOptions.filter(({ noEffect }) => noEffect !== undefined).map(flagOnlyOption),
];

function flagOnlyOption({ flag, kind, help }: FlagOnlyOption): Flag {
  return {
    name: flag,
    isBoolean: kind === "boolean",
    placeholder: placeholders[kind],
    help,
    default: "",
    group: "Start",
  };
}

/** Every flag with the value given or its default; a password inside an address is not shown. */
export function shownFlags(values: FlagValues): ReadonlyMap<string, string> {
  return new Map(
    flags.map((flag) => {
      const value = values.get(flag.name)?.join(",") ?? flag.default;
      return [flag.name, value.replaceAll(/\/\/[^/@\s]*@/g, "//***@")];
    }),
  );
}
