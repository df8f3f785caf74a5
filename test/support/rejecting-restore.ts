/** Wraps iptables-restore in a script that rejects input. Start the program with {@link rejectingPath} to use it. */
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { shell } from "./netns/network-namespace.ts";

const folder = "/run/rejecting";
const patternFile = `${folder}/pattern`;

/** The value of PATH with the wrapped program. */
export const rejectingPath: string = `${folder}:${process.env["PATH"]}`;

/** Writes a script for each iptables-restore program name. */
export function wrapIptablesRestore(): void {
  mkdirSync(folder, { recursive: true });
  for (const name of ["iptables-restore", "iptables-legacy-restore", "iptables-nft-restore"]) {
    const real = shell(`command -v ${name} || true`).trim();
    if (real !== "") writeScript(`${folder}/${name}`, real);
  }
}

/** From now on, rejects input in which a line matches this grep pattern. */
export function rejectInput(pattern: string): void {
  writeFileSync(patternFile, pattern);
}

export function rejectNothing(): void {
  rmSync(patternFile, { force: true });
}

function writeScript(path: string, real: string): void {
  const script = `#!/bin/sh
input=$(cat; echo .)
input=\${input%.}
if [ -e ${patternFile} ] && printf %s "$input" | grep -q -e "$(cat ${patternFile})"; then
  echo "iptables-restore: line 1 failed: refused by the test" >&2
  exit 1
fi
printf %s "$input" | exec ${real} "$@"
`;
  writeFileSync(path, script);
  chmodSync(path, 0o755);
}
