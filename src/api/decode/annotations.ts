import type { Untrusted } from "./fields.ts";
import { flatText } from "./flat-text.ts";

/** Prefix of kube-ipvs annotations. Unknown names with this prefix are reported as mistakes. */
const ownPrefix = "kube-ipvs.io/";
/** kube-router's annotation with the same meaning. */
const aliases: ReadonlySet<string> = new Set(["kube-router.io/service.scheduler"]);

/** Longer texts are truncated, because no valid name or value is that long. */
const longestKept = 256;
const mostKept = 32;

/** A Service's tuning annotations, by name. Undefined if there are none. */
export function tuningAnnotations(
  annotations: Untrusted,
): Readonly<Record<string, string>> | undefined {
  const { value } = annotations;
  if (typeof value !== "object" || value === null) return undefined;
  const names = Object.keys(value)
    .filter((name) => name.startsWith(ownPrefix) || aliases.has(name))
    .slice(0, mostKept);
  const kept = names.flatMap((name): readonly (readonly [string, string])[] => {
    const text = textOf(annotations.field(name));
    return text === undefined ? [] : [[flatText(name.slice(0, longestKept)), flatText(text)]];
  });
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

/** An EndpointSlice's weight as text. It is parsed and validated only if the Service uses slice weights. */
export function sliceWeightText(object: Untrusted): string | undefined {
  return textOf(object.at("metadata", "annotations", `${ownPrefix}weight`));
}

function textOf(given: Untrusted): string | undefined {
  if (typeof given.value === "string") return given.value.slice(0, longestKept);
  return given.isAbsent ? undefined : given.refuse("invalid-annotation");
}
