/** Runs the guides' commands in a checkout, as an operator does. */
import { spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Cluster } from "./cluster.ts";

/** Enough for a command that runs the acceptance test. */
const stepSeconds = 900;

/** Prepares a checkout: its overlays contain the image and the cluster's API server, and `bin` contains kubectl. */
export function prepareCheckout(cluster: Cluster, source: string, image: string): string {
  const checkout = mkdtempSync(join(cluster.folder, "checkout-"));
  mkdirSync(join(checkout, "bin"));
  symlinkSync(cluster.kubectl, join(checkout, "bin/kubectl"));
  symlinkSync(join(source, "dist"), join(checkout, "dist"));
  cpSync(join(source, "deploy"), join(checkout, "deploy"), { recursive: true });
  const [name = "", tag = ""] = image.split(":");
  const server = ["https://control-plane.example:6443", cluster.apiServer] as const;
  const overlays = "kustomize/overlays";
  const edits: readonly (readonly [file: string, from: string | RegExp, to: string])[] = [
    ["kustomize/image/kustomization.yaml", /newName: .*/, `newName: ${name}`],
    ["kustomize/image/kustomization.yaml", /newTag: .*/, `newTag: ${tag}`],
    [`${overlays}/replace-kube-proxy/kubeconfig.conf`, ...server],
    [`${overlays}/beside-kube-proxy/kubeconfig.conf`, ...server],
    [`${overlays}/k3s/kubeconfig.conf`, "https://127.0.0.1:6444", cluster.apiServer],
    ["manifests/replace-kube-proxy.yaml", ...server],
    ["manifests/replace-kube-proxy.yaml", /image: .*/g, `image: ${image}`],
  ];
  for (const [file, from, to] of edits) {
    const path = join(checkout, "deploy", file);
    // Earlier versions do not have all files.
    if (existsSync(path)) writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
  }
  return checkout;
}

/** Runs a command as an operator does, and prints its output. */
export function runCommand(cluster: Cluster, checkout: string, command: string): Promise<void> {
  const path = `${join(checkout, "bin")}:${process.env["PATH"]}`;
  return runShell(cluster.inNetwork("sh", "-ec", command), {
    cwd: checkout,
    environment: { PATH: path, KUBECONFIG: cluster.kubeconfig },
    signal: AbortSignal.any([cluster.signal, AbortSignal.timeout(stepSeconds * 1_000)]),
  });
}

interface ShellOptions {
  readonly cwd?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** Runs a shell in its own session. The signal kills the shell and all that it started. */
export async function runShell(argv: readonly string[], options: ShellOptions): Promise<void> {
  const { cwd, environment, signal } = options;
  const [program = "", ...args] = argv;
  signal.throwIfAborted();
  const child = spawn(program, args, {
    detached: true,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, ...environment },
    ...(cwd !== undefined && { cwd }),
  });
  const kill = (): void => {
    const { pid, exitCode, signalCode } = child;
    if (pid !== undefined && exitCode === null && signalCode === null)
      process.kill(-pid, "SIGKILL");
  };
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.once("error", reject);
  child.once("exit", (status, by) => {
    if (status === 0) resolve();
    else reject(new Error(`${argv.at(-1)} exited with ${by ?? status}`));
  });
  signal.addEventListener("abort", kill, { once: true });
  await promise.finally(() => signal.removeEventListener("abort", kill));
}
