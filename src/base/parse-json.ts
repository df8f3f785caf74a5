/** JSON.parse with the result type `unknown`, which forces callers to check the type. */
export function parseJson(
  text: string,
  reviver?: (key: string, value: unknown) => unknown,
): unknown {
  return JSON.parse(text, reviver) as unknown;
}
