/** Runs commands of the guides in a checkout, as an operator does. */
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Cluster, credential } from "./cluster.ts";
import { apiServer, inNamespace } from "./network.ts";

/** Enough for a command that runs the acceptance test. */
const stepSeconds = 900;

/** A checkout whose overlays name an image and the cluster's API server, with kubectl in `bin`. */
export function prepareCheckout(cluster: Cluster, source: string, image: string): string {
  const checkout = mkdtempSync(join(cluster.folder, "checkout-"));
  mkdirSync(join(checkout, "bin"));
  symlinkSync(cluster.kubernetes.program("kubectl"), join(checkout, "bin/kubectl"));
  symlinkSync(join(source, "dist"), join(checkout, "dist"));
  cpSync(join(source, "deploy"), join(checkout, "deploy"), { recursive: true });
  const kustomize = join(checkout, "deploy/kustomize");
  const [name = "", tag = ""] = image.split(":");
  const edits: readonly (readonly [file: string, from: RegExp, to: string])[] = [
    ["image/kustomization.yaml", /newName: .*/, `newName: ${name}`],
    ["image/kustomization.yaml", /newTag: .*/, `newTag: ${tag}`],
    ["overlays/replace-kube-proxy/kubeconfig.conf", /server: .*/, `server: ${apiServer}`],
  ];
  for (const [file, from, to] of edits) {
    const path = join(kustomize, file);
    writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
  }
  return checkout;
}

/** Runs a command as an operator does, and prints what it prints. */
export async function runCommand(
  cluster: Cluster,
  checkout: string,
  command: string,
): Promise<void> {
  const path = `${join(checkout, "bin")}:${process.env["PATH"]}`;
  const [program = "", ...args] = inNamespace("sh", "-ec", command);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const child = spawn(program, args, {
    cwd: checkout,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, PATH: path, KUBECONFIG: credential(cluster, "admin.conf") },
    signal: cluster.signal,
    timeout: stepSeconds * 1_000,
  });
  child.once("error", reject);
  child.once("exit", (status, signal) => {
    if (status === 0) resolve();
    else reject(new Error(`${command} ended with ${signal ?? status}`));
  });
  await promise;
}
