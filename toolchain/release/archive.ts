/** tar files of which two runs are the same, byte by byte. */
import { execFileSync } from "node:child_process";
import { gzipSync } from "node:zlib";

export interface ArchiveOptions {
  /** Every member's time, in seconds since the epoch. */
  readonly epochSeconds: number;
  /** Paths below the folder, `./usr/local`; default: all of it. */
  readonly members?: readonly string[];
  /** Paths that are left out, with what is below them. */
  readonly without?: readonly string[];
  /** A change of every member's mode, as chmod takes it. */
  readonly mode?: string;
}

/** The content of a folder as a tar file: GNU tar's, sorted by name, owned by root. */
export function tarOf(folder: string, options: ArchiveOptions): Buffer {
  const { epochSeconds, members = ["."], without = [], mode } = options;
  const same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"];
  return execFileSync(
    "tar",
    [
      ...["--create", "--file=-", `--directory=${folder}`, `--mtime=@${epochSeconds}`, ...same],
      // Members that share an inode here are separate files there: links depend on how the folder was made.
      "--hard-dereference",
      ...without.map((path) => `--exclude=${path}`),
      ...(mode === undefined ? [] : [`--mode=${mode}`]),
      ...members,
    ],
    { maxBuffer: 2 ** 30, env: { ...process.env, LC_ALL: "C" } },
  );
}

/** For sources: whatever the umask was when they were checked out. */
export const plainMode = "u+rw,go=u,go-w";

/** As gzip -n: no name and no time in the header. Level 9 takes half as long again for Node.js, and saves 0.3 %. */
export function gzipped(bytes: Buffer): Buffer {
  return gzipSync(bytes, { level: 6 });
}
