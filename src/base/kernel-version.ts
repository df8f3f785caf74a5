/** Parses `5.15.0-91-generic` into a number that can be compared with {@link linux}. Undefined if it is invalid. */
export function linuxOf(release: string): number | undefined {
  const match = /^(\d+)\.(\d+)/.exec(release);
  return match === null ? undefined : linux(Number(match[1]), Number(match[2]));
}

export function linux(major: number, minor: number): number {
  return major * 1_000 + minor;
}
