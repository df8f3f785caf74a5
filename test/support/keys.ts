/** Returns a text as a key of the expected type, such as `VirtualServerKey`. */
export function toKey<Key extends string>(text: string): Key {
  return text as Key;
}
