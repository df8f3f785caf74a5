/** JSON.parse with an honest result type: what came from outside is unknown until narrowed. */
export function parseJson(text: string): unknown {
  return JSON.parse(text) as unknown;
}
