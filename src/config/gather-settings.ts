import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../base/is-record.ts";
import type { ProxyMode } from "./config.ts";
import type { ConfigProblem } from "./config-error.ts";
import type { Field } from "./field.ts";
import { allFields, flagOnlyFields, profileField, type Settings } from "./fields.ts";
import { kinds, type Reading } from "./kinds.ts";
import {
  type ConfigNotice,
  deprecatedNotice,
  ignoredFlagNotice,
  noEffectNotice,
} from "./notice.ts";
import { proxyModeOf } from "./proxy-mode.ts";
import { readFileValue, readText } from "./read-value.ts";

/** The unparsed values of each flag, in the order given. Keys are flag names without dashes. */
export type FlagValues = ReadonlyMap<string, readonly string[]>;

export interface GatheredSettings {
  readonly settings: Settings;
  /** Every setting by path, including settings without effect. */
  readonly values: ReadonlyMap<string, unknown>;
  /** Returns the name by which a setting was given: its flag, or its path in the file. */
  readonly nameOf: (path: keyof Settings) => string;
  readonly problems: readonly ConfigProblem[];
  readonly notices: readonly ConfigNotice[];
}

/** Where a value came from. */
interface Choice {
  readonly name: string;
  readonly raw: unknown;
  readonly from: "flag" | "file" | "default";
  readonly reading: Reading<unknown>;
}

/**
 * Chooses the value of each setting. A flag applies if there is no file, if the flag overrides the file, or if it fills
 * an empty field. Otherwise, the file's value applies or, if there is none, the default. Values that do not apply are
 * validated too. `file` is undefined if `--config` is not given.
 */
export function gatherSettings(
  file: Readonly<Record<string, unknown>> | undefined,
  flags: FlagValues,
): GatheredSettings {
  const values = new Map<string, unknown>();
  const names = new Map<string, string>();
  const problems: ConfigProblem[] = [];
  const notices: ConfigNotice[] = [];
  checkStructure(file ?? {}, "", { problems, notices });
  const profile = chosenProfile(file, flags);
  for (const row of [...flagOnlyFields, ...allFields]) {
    const field = withProfile(row, profile);
    const choice = choose(field, file, flags);
    names.set(field.path, choice.name);
    if ("reason" in choice.reading) {
      problems.push({ path: choice.name, value: choice.raw, reason: choice.reading.reason });
      values.set(field.path, defaultValue(field));
    } else values.set(field.path, choice.reading.value);
    const isFlagGiven = flags.has(field.flag ?? "");
    if (isFlagGiven && field.insteadOf !== undefined) notices.push(deprecatedNotice(field));
    const isFlagBesideFile = file !== undefined && isFlagGiven;
    // The mode's row precedes the rows that depend on it.
    const mode = proxyModeOf({ mode: String(values.get("mode")), "kubeIpvs.profile": profile });
    notices.push(...noticesOf(field, choice, { isFlagBesideFile, mode }));
  }
  return {
    settings: settingsOf(values),
    values,
    nameOf: (path) => names.get(path) ?? path,
    problems,
    notices,
  };
}

export function settingsOf(values: ReadonlyMap<string, unknown>): Settings {
  return Object.fromEntries(values) as Settings;
}

type Profile = Settings["kubeIpvs.profile"];

/** The profile is read first, because it determines other settings' defaults. */
function chosenProfile(
  file: Readonly<Record<string, unknown>> | undefined,
  flags: FlagValues,
): Profile {
  const { reading } = choose(profileField, file, flags);
  return "value" in reading && reading.value === "kube-proxy" ? "kube-proxy" : "kube-ipvs";
}

function withProfile(field: Field, profile: Profile): Field {
  const { kubeProxyDefault } = field;
  if (profile !== "kube-proxy" || kubeProxyDefault === undefined) return field;
  return { ...field, default: kubeProxyDefault };
}

function choose(
  field: Field,
  file: Readonly<Record<string, unknown>> | undefined,
  flags: FlagValues,
): Choice {
  const given = flags.get(field.flag ?? "");
  if (given !== undefined) {
    const choice = fromFlag(field, given);
    const isEmptyInFile = fromFile(field, file) === undefined;
    const winsOverFile = field.winsOverFile === true || (field.fillsFile && isEmptyInFile);
    // An invalid flag is reported even if it does not apply.
    const isUsed = file === undefined || winsOverFile || "reason" in choice.reading;
    if (isUsed) return choice;
  }
  return fromFile(field, file) ?? fromDefault(field, file === undefined);
}

/** The last value applies; repeated list flags are joined. */
function fromFlag(field: Field, given: readonly string[]): Choice {
  const raw = kinds[field.kind].isList ? given.join(",") : (given.at(-1) ?? "");
  const name = `--${field.flag}`;
  if (raw === "" && field.kind !== "boolean" && field.keepsZero !== true)
    return { ...fromDefault(field, true), name };
  return { name, raw, from: "flag", reading: readText(field, raw) };
}

function fromFile(field: Field, file: Readonly<Record<string, unknown>> = {}): Choice | undefined {
  if (flagOnlyFields.includes(field)) return undefined;
  const raw = lookUp(file, field.path);
  const reading = readFileValue(field, raw);
  return reading === undefined ? undefined : { name: field.path, raw, from: "file", reading };
}

function fromDefault(field: Field, isWithoutFile: boolean): Choice {
  const raw = (isWithoutFile ? field.defaultWithoutFile : undefined) ?? field.default;
  return { name: field.path, raw, from: "default", reading: readText(field, raw) };
}

/** Replaces an invalid value, so that the remaining settings can be checked too. */
function defaultValue(field: Field): unknown {
  const reading = readText(field, field.default);
  return "value" in reading ? reading.value : undefined;
}

/** Returns the value at a path, or undefined if a section on the path is missing or not an object. */
function lookUp(file: Readonly<Record<string, unknown>>, path: string): unknown {
  let value: unknown = file;
  for (const key of path.split(".")) {
    value = isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

const knownPaths: ReadonlySet<string> = new Set(allFields.map(({ path }) => path));
const sections: ReadonlySet<string> = new Set(
  allFields.flatMap(({ path }) => {
    const keys = path.split(".");
    return keys.slice(1).map((_, index) => keys.slice(0, index + 1).join("."));
  }),
);

/** Reports unknown fields, and sections that are not objects. */
function checkStructure(
  fields: Readonly<Record<string, unknown>>,
  prefix: string,
  { problems, notices }: { readonly problems: ConfigProblem[]; readonly notices: ConfigNotice[] },
): void {
  for (const [key, value] of Object.entries(fields)) {
    const path = `${prefix}${key}`;
    if (knownPaths.has(path)) continue;
    if (!sections.has(path)) notices.push(unknownField(path));
    else if (isRecord(value)) checkStructure(value, `${path}.`, { problems, notices });
    else if (value !== null) problems.push({ path, value, reason: "must be an object" });
  }
}

function unknownField(path: string): ConfigNotice {
  const meant = [...knownPaths, ...sections].find(
    (known) => known.toLowerCase() === path.toLowerCase(),
  );
  const keys = { path, ...(meant === undefined ? {} : { meant }) };
  return { level: "warn", event: "Ignoring unknown configuration field", keys, ignored: path };
}

function noticesOf(
  field: Field,
  choice: Choice,
  { isFlagBesideFile, mode }: { readonly isFlagBesideFile: boolean; readonly mode: ProxyMode },
): ConfigNotice[] {
  const notices: ConfigNotice[] = [];
  if (isFlagBesideFile && choice.from !== "flag") {
    notices.push(ignoredFlagNotice(field.flag ?? ""));
  }
  const isSaid = choice.from === "flag" || (choice.from === "file" && !isDefault(field, choice));
  const isOfOtherMode = field.onlyInMode !== undefined && field.onlyInMode !== mode;
  const noEffect = isOfOtherMode
    ? `applies to ${field.onlyInMode === "ipvs" ? "IPVS" : field.onlyInMode} mode only`
    : field.noEffect;
  if (noEffect !== undefined && isSaid) notices.push(noEffectNotice(choice.name, noEffect));
  return notices;
}

/**
 * Whether a value equals the default. Such a value causes no notice, because kubeadm writes every field, even zeros.
 */
function isDefault(field: Field, { reading }: Choice): boolean {
  return isDeepStrictEqual(reading, readText(field, field.default));
}
