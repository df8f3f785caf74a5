import { type DecodeScope, fieldOf, isAbsent, pathOf, refusePart } from "./fields.ts";
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
  scope: DecodeScope,
  object: unknown,
): Readonly<Record<string, string>> | undefined {
  const annotations = pathOf(object, "metadata", "annotations");
  if (typeof annotations !== "object" || annotations === null) return undefined;
  const names = Object.keys(annotations)
    .filter((name) => name.startsWith(ownPrefix) || aliases.has(name))
    .slice(0, mostKept);
  const kept = names.flatMap((name): readonly (readonly [string, string])[] => {
    const text = textAt(scope, fieldOf(annotations, name), name);
    return text === undefined ? [] : [[flatText(name.slice(0, longestKept)), flatText(text)]];
  });
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

/** The weight that an EndpointSlice asks for its endpoints; read, and judged, where a Service wants it. */
export function sliceWeightText(scope: DecodeScope, object: unknown): string | undefined {
  const name = `${ownPrefix}weight`;
  return textAt(scope, pathOf(object, "metadata", "annotations", name), name);
}

function textAt(scope: DecodeScope, value: unknown, name: string): string | undefined {
  if (typeof value === "string") return value.slice(0, longestKept);
  if (isAbsent(value)) return undefined;
  return refusePart(
    scope,
    `metadata.annotations[${name.slice(0, longestKept)}]`,
    "invalid-annotation",
    value,
  );
}
