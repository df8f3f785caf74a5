/** What an operator does with the guides: runs their commands in a checkout. */
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Cluster, credential } from "./cluster.ts";
import { inNamespace } from "./network.ts";
import { project } from "./with-cluster.ts";

/** The acceptance test runs within. */
const stepSeconds = 900;

/** The checkout that the guides speak of, with the operator's image set. */
export function prepareCheckout({ folder, kubernetes }: Cluster): string {
  const checkout = join(folder, "checkout");
  mkdirSync(join(checkout, "bin"), { recursive: true });
  symlinkSync(kubernetes.program("kubectl"), join(checkout, "bin/kubectl"));
  symlinkSync(join(project, "dist"), join(checkout, "dist"));
  cpSync(join(project, "deploy"), join(checkout, "deploy"), { recursive: true });
  const image = join(checkout, "deploy/kustomize/image/kustomization.yaml");
  const text = readFileSync(image, "utf8");
  writeFileSync(image, text.replace("newName: kube-ipvs", "newName: localhost/kube-ipvs"));
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
