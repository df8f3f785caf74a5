import type { Untrusted } from "./fields.ts";
import { flatText } from "./flat-text.ts";

/** Everything under it is ours: what is not known there is a mistake. */
const ownPrefix = "kube-ipvs.io/";
/** kube-router's, which means the same as ours. */
const aliases: ReadonlySet<string> = new Set(["kube-router.io/service.scheduler"]);

/** Nothing that we read is as long, and nobody wants to read more of a wrong value. */
const longestKept = 256;
const mostKept = 32;

/** The annotations that tune a Service, by their names; absent: there are none. */
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

/** The weight that an EndpointSlice asks for its endpoints; read, and judged, where a Service wants it. */
export function sliceWeightText(object: Untrusted): string | undefined {
  return textOf(object.at("metadata", "annotations", `${ownPrefix}weight`));
}

function textOf(given: Untrusted): string | undefined {
  if (typeof given.value === "string") return given.value.slice(0, longestKept);
  return given.isAbsent ? undefined : given.refuse("invalid-annotation");
}
