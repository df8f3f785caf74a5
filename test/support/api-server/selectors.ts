import type { ApiObject } from "../objects.ts";

/** Whether a request selects an object. */
export type Selector = (object: ApiObject) => boolean;

type Lookup = (object: ApiObject, key: string) => unknown;

/** Reads labelSelector and fieldSelector: `key`, `!key`, `key=value`, `key!=value`, `key in (a,b)`, joined by commas. */
export function selectorOf(query: URLSearchParams): Selector {
  const tests = [
    ...requirements(query.get("labelSelector"), labelOf),
    ...requirements(query.get("fieldSelector"), fieldOf),
  ];
  return (object) => tests.every((test) => test(object));
}

function requirements(text: string | null, lookup: Lookup): readonly Selector[] {
  if (text === null || text === "") return [];
  // Commas in brackets separate values.
  return text.split(/,(?![^(]*\))/).map((part) => requirement(part, lookup));
}

function requirement(text: string, lookup: Lookup): Selector {
  const [, listed = "", values] = /^(\S+) in \(([^)]*)\)$/.exec(text) ?? [];
  if (values !== undefined) {
    return (object) => values.split(",").includes(String(lookup(object, listed) ?? ""));
  }
  const compared = /^([^!=]+)(!?)==?(.*)$/.exec(text);
  if (compared !== null) {
    const [, key = "", not, value] = compared;
    return (object) => (String(lookup(object, key) ?? "") === value) !== (not === "!");
  }
  if (text.startsWith("!")) return (object) => lookup(object, text.slice(1)) === undefined;
  return (object) => lookup(object, text) !== undefined;
}

function labelOf(object: ApiObject, key: string): unknown {
  return (object.metadata["labels"] as Readonly<Record<string, unknown>> | undefined)?.[key];
}

function fieldOf(object: ApiObject, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], object);
}
