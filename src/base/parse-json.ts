/** JSON.parse with the result type `unknown`, so that callers must check the type. */
export function parseJson(text: string): unknown {
  return JSON.parse(text) as unknown;
}
