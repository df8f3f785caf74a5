/** A weight as text: from 0 to 65535, as ipvsadm takes it; undefined where it is none. */
export function parseWeight(text: string): number | undefined {
  if (!/^\d{1,5}$/.test(text)) return undefined;
  const weight = Number(text);
  return weight <= 65_535 ? weight : undefined;
}
