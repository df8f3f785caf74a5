/** An operation of RFC 6902. Only the operations that the tests need are supported. */
interface Operation {
  readonly op: "test" | "remove";
  readonly path: string;
  readonly value?: unknown;
}

/** The patched copy. Undefined if a test fails or a path does not exist: the server then answers 422. */
export function jsonPatch(target: object, operations: readonly Operation[]): object | undefined {
  const result = structuredClone(target);
  for (const { op, path, value } of operations) {
    const names = path.split("/").slice(1);
    const last = names.pop() ?? "";
    let parent: unknown = result;
    for (const name of names) parent = (parent as Record<string, unknown> | undefined)?.[name];
    const fields = parent as Record<string, unknown> | undefined;
    if (fields?.[last] === undefined) return undefined;
    if (op === "test" && fields[last] !== value) return undefined;
    if (op === "remove" && Array.isArray(parent)) parent.splice(Number(last), 1);
    else if (op === "remove") delete fields[last];
  }
  return result;
}
