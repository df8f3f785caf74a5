/** Flags that stand for no field of the file: read, checked, reported. */
import type { ConfigProblem } from "./config-error.ts";
import { flagOnlyOptions } from "./fields.ts";
import type { FlagValues } from "./gather-settings.ts";
import {
  type ConfigNotice,
  deprecatedNotice,
  ignoredFlagNotice,
  noEffectNotice,
} from "./notice.ts";
import { readText } from "./read-value.ts";

export interface FlagOnlyValues {
  /** Values as text in normal form; a flag that counts for nothing is absent. */
  readonly texts: ReadonlyMap<string, string>;
  readonly problems: readonly ConfigProblem[];
  readonly notices: readonly ConfigNotice[];
}

/** Reads them; the deprecated ones count only where there is no configuration file. */
export function readFlagOnlyOptions(flags: FlagValues): FlagOnlyValues {
  const texts = new Map<string, string>();
  const problems: ConfigProblem[] = [];
  const notices: ConfigNotice[] = [];
  const hasFile = (flags.get("config")?.at(-1) ?? "") !== "";
  for (const { flag, noEffect, insteadOf, ...field } of flagOnlyOptions) {
    const raw = flags.get(flag)?.at(-1);
    if (raw === undefined) continue;
    const reading = readText(field, raw);
    const isIgnored = hasFile && insteadOf !== undefined;
    if ("reason" in reading) problems.push({ path: `--${flag}`, value: raw, ...reading });
    else if (!isIgnored) texts.set(flag, String(reading.value));
    if (insteadOf !== undefined) notices.push(deprecatedNotice(flag, insteadOf));
    if (isIgnored) notices.push(ignoredFlagNotice(flag));
    if (noEffect !== undefined) notices.push(noEffectNotice(`--${flag}`, noEffect));
  }
  return { texts, problems, notices };
}

/** White space alone is a mistake (an unset variable in a manifest), not "no override". */
export function blankNodeName(flags: FlagValues): readonly ConfigProblem[] {
  const value = flags.get("hostname-override")?.at(-1) ?? "";
  if (value === "" || value.trim() !== "") return [];
  return [{ path: "--hostname-override", value, reason: "must not be blank" }];
}
