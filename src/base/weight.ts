/** Parses a weight from 0 to 65535, the range of ipvsadm. Undefined if it is invalid. */
export function parseWeight(text: string): number | undefined {
  if (!/^\d{1,5}$/.test(text)) return undefined;
  const weight = Number(text);
  return weight <= 65_535 ? weight : undefined;
}
