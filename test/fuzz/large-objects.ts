/** Inputs that are too large for files: objects whose size or depth an API server would reject. */
import { parseJson } from "../../src/base/parse-json.ts";
import { endpointSlice, service } from "../support/objects.ts";

const annotationBytes = 10_000_000;
const depth = 100_000;
const addressCount = 5_000;

/** JSON text with a nesting depth that JSON.stringify cannot write. */
const deepText = `${"[".repeat(depth)}${"]".repeat(depth)}`;

/** Returns `object` as JSON, with the JSON text `value` in place of the text "HERE". */
function withText(object: object, value: string): unknown {
  return parseJson(JSON.stringify(object).replace('"HERE"', () => value));
}

function annotated(annotations: object): object {
  const object = service();
  return { ...object, metadata: { ...object.metadata, annotations } };
}

export const largeServices: readonly unknown[] = [
  annotated({ note: "x".repeat(annotationBytes) }),
  annotated(Object.fromEntries(Array.from({ length: addressCount }, (_, key) => [`k${key}`, "v"]))),
  withText(annotated({ note: "HERE" }), deepText),
  withText(service({ spec: { unknown: "HERE" } }), deepText),
  withText(service({ spec: { ports: "HERE" } }), deepText),
  withText(service({ spec: { clusterIPs: "HERE" } }), deepText),
  withText({ ...service(), status: "HERE" }, deepText),
  withText({ ...service(), metadata: "HERE" }, deepText),
];

/** Different addresses in a /16 network. */
const addresses = Array.from(
  { length: addressCount },
  (_, index) => `10.244.${Math.floor(index / 250)}.${1 + (index % 250)}`,
);

export const largeSlices: readonly unknown[] = [
  endpointSlice({ endpoints: addresses }),
  withText({ ...endpointSlice(), endpoints: "HERE" }, deepText),
  withText({ ...endpointSlice(), endpoints: [{ addresses: "HERE" }] }, deepText),
  { ...endpointSlice(), endpoints: [{ addresses }] },
];
