/** Extracts the reason for the program's exit from its last output lines. */

const failed = /^E\d{4} .* kube-ipvs:1\] "Command failed" err=(".*?[^\\]")(?: stack=.*)?$/;
const mistake =
  /^E\d{4} .* kube-ipvs:1\] "Invalid configuration" path=(.*?)(?: value=(.*?))? reason=(".*")$/;

/** The text of `err`, or `path: reason` for a configuration error. Undefined for other lines. */
export function failureIn(line: string): string | undefined {
  const [, err] = failed.exec(line) ?? [];
  if (err !== undefined) return JSON.parse(err) as string;
  const [, path, , reason] = mistake.exec(line) ?? [];
  if (path === undefined || reason === undefined) return undefined;
  return `${JSON.parse(path)}: ${JSON.parse(reason)}`;
}

/** All failures, in order. */
export function failuresIn(output: string): readonly string[] {
  return output.split("\n").flatMap((line) => failureIn(line) ?? []);
}
