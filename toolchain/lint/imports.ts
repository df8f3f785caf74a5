/**
 * The direction of imports in src/: `make lint` runs this file. A file may import its own folder, and what the row of
 * its innermost listed folder allows: folders and files below src/, `native-shim`, packages (`npm:`), and modules of
 * Node.js (`node:*` for all). src/main.ts starts the program and may import everything.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const allowed: Readonly<Record<string, string>> = {
  // The program's commands, and the daemon.
  cli: "answer config daemon doctor explain sysdump top base npm:commander node:*",
  daemon:
    "answer api config endpoint-controller kernel metrics model netlink plan reconcile state userspace base node:*",
  e2e: "answer api base npm:@kubernetes/client-node node:*",

  // Folders that produce the answers of commands.
  doctor: "answer api config daemon explain kernel plan state base node:*",
  "doctor/checks": "answer doctor/check.ts doctor/node.ts plan state base",
  explain: "answer kernel plan state base node:*",
  "explain/packet": "answer state base",
  sysdump: "answer config kernel state base node:*",
  top: "answer kernel state base node:*",
  answer: "plan state base",

  // Input: configuration and Kubernetes objects.
  config: "base node:*",
  api: "endpoint-slices base npm:@kubernetes/client-node node:*",
  "endpoint-controller": "api endpoint-slices base",
  "endpoint-slices": "base node:util",

  // Desired state. These folders are pure.
  model: "api/objects.ts base",
  plan: "api/objects.ts model state base node:util",
  state: "base",
  reconcile: "kernel/kernel.ts plan state base",

  // The kernel, and connections that the program itself forwards.
  userspace:
    "api/objects.ts kernel/kernel.ts model plan state base node:dgram node:events node:net",
  kernel:
    "native-shim/legacy-table.ts native-shim/socket-peer.ts netlink state base npm:execa node:*",
  // The index of the package netlink opens a socket of its own.
  netlink: "native-shim base npm:netlink/dist node:*",

  metrics: "base node:* npm:prom-client",
  base: "npm:yaml",
  "base/errno.ts": "base node:os",
  "base/name-hash.ts": "base node:crypto",
};

/**
 * @param file path below src/, such as `plan/sets.ts`
 * @param specifier as written in its import, such as `../kernel/kernel.ts` or `node:fs`
 */
export function mayImport(file: string, specifier: string): boolean {
  const folder = Object.keys(allowed)
    .filter((row) => isWithin(file, row))
    .at(-1);
  if (folder === undefined) return file === "main.ts";
  const imported = locate(file, specifier);
  const rows = [folder, ...(allowed[folder] ?? "").split(" ")];
  return rows.some((row) => (row === "node:*" ? isNode(imported) : isWithin(imported, row)));
}

/** Each forbidden import of all files below a folder `src`, as one line of text. */
export function findForbiddenImports(src: string): readonly string[] {
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).sort();
  return files
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => {
      const specifiers = readSpecifiers(readFileSync(join(src, file), "utf8"));
      return specifiers
        .filter((specifier) => !mayImport(file, specifier))
        .map(
          (specifier) => `src/${file} must not import ${specifier}: see toolchain/lint/imports.ts`,
        );
    });
}

function isWithin(path: string, row: string): boolean {
  return path === row || path.startsWith(`${row}/`);
}

function isNode(specifier: string): boolean {
  return specifier.startsWith("node:");
}

/** The path below src/, or below the project if the imported file is not in src/. Packages start with `npm:`. */
function locate(file: string, specifier: string): string {
  if (!specifier.startsWith(".")) return isNode(specifier) ? specifier : `npm:${specifier}`;
  return join(dirname(file), specifier).replace(/^(?:\.\.\/)+/, "");
}

function readSpecifiers(code: string): readonly string[] {
  const forms =
    /^(?:import|export|\}).* from "([^"]+)";$|^import "([^"]+)";$|\bimport\("([^"]+)"\)/gm;
  return [...code.matchAll(forms)].map(([, from, bare, called]) => from ?? bare ?? called ?? "");
}

if (import.meta.main) {
  const forbidden = findForbiddenImports(join(import.meta.dirname, "../../src"));
  for (const line of forbidden) process.stderr.write(`${line}\n`);
  if (forbidden.length > 0) process.exitCode = 1;
}
