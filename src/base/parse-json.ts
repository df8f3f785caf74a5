/** JSON.parse with the result type `unknown`, which forces callers to check the type. */
export function parseJson(text: string): unknown {
  return JSON.parse(text) as unknown;
}
