import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { escapeUnprintable } from "../../base/printable.ts";
import { systemErrorText } from "../../base/system-error-text.ts";
import { parseYamlDocuments } from "../../base/yaml.ts";
import { ApiError } from "../api-error.ts";

/** The connection to a cluster, as a kubeconfig describes it. */
export interface Kubeconfig {
  /** The kubeconfig object (`clusters`, `users`, `contexts`, `current-context`). */
  readonly object: unknown;
  /** Relative paths in the kubeconfig are relative to this folder. */
  readonly folder: string;
  /** The source, for messages, such as `kubeconfig /etc/x.conf`. */
  readonly origin: string;
}

/** The folder that contains a pod's credentials. */
const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Reads a kubeconfig file. Throws ApiError `unreadable-kubeconfig` or `invalid-kubeconfig`. */
export async function readKubeconfigFile(path: string): Promise<Kubeconfig> {
  const origin = `kubeconfig ${path}`;
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    const advice = "check --kubeconfig, or clientConnection.kubeconfig in the configuration";
    const message = `Cannot read ${origin}: ${systemErrorText(cause)}; ${advice}`;
    throw new ApiError(message, { reason: "unreadable-kubeconfig", cause });
  });
  return readKubeconfigText(text, path);
}

/** Parses the text of the kubeconfig at `path`. Throws ApiError `invalid-kubeconfig`. Pure. */
export function readKubeconfigText(text: string, path: string): Kubeconfig {
  const origin = `kubeconfig ${path}`;
  // A token may consist only of digits, so numbers are read as text.
  const [document] = parseYamlDocuments(text, { areNumbersText: true });
  const [problem] = document?.problems ?? [];
  if (problem !== undefined) {
    throw invalidKubeconfig(origin, `line ${problem.line}: ${withoutQuotes(problem.reason)}`);
  }
  return { object: document?.value, folder: dirname(path), origin };
}

/** Removes quoted text, which may be a token, from a YAML parser's message. */
export function withoutQuotes(reason: string): string {
  return reason.replace(/\s*[:\\"].*$/su, "");
}

/** A kubeconfig for `--master` alone: an address without credentials. */
export function kubeconfigOfMaster(master: string): Kubeconfig {
  const object = kubeconfigObject({ server: master });
  return { object, folder: "/", origin: `--master ${master}` };
}

/**
 * A kubeconfig from a pod's environment and service account. Throws ApiError `no-cluster` outside a pod or without a
 * token.
 */
export async function kubeconfigOfPod(
  environment: Readonly<Record<string, string | undefined>>,
  folder: string = serviceAccountFolder,
): Promise<Kubeconfig> {
  const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "" } = environment;
  if (host === "" || port === "") {
    const message =
      "Cannot find an API server: neither --kubeconfig nor --master is set, and the environment has no " +
      "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, which are set in pods; set --kubeconfig, or --manifests to run without a cluster";
    throw new ApiError(message, { reason: "no-cluster" });
  }
  const tokenFile = join(folder, "token");
  await readFile(tokenFile).catch((cause: unknown) => {
    const advice = "set automountServiceAccountToken for the pod, or set --kubeconfig";
    const message = `Cannot read token ${tokenFile}: ${systemErrorText(cause)}; ${advice}`;
    throw new ApiError(message, { reason: "no-cluster", cause });
  });
  const caFile = join(folder, "ca.crt");
  const hasCa = await readFile(caFile).then(
    () => true,
    () => false,
  );
  const server = `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
  const cluster = { server, ...(hasCa ? { "certificate-authority": caFile } : {}) };
  const object = kubeconfigObject(cluster, { tokenFile });
  return { object, folder, origin: "the pod's service account" };
}

/** An error for a kubeconfig that was read but is invalid. */
export function invalidKubeconfig(origin: string, why: string): ApiError {
  const message = escapeUnprintable(`Cannot use ${origin}: ${why}`);
  return new ApiError(message, { reason: "invalid-kubeconfig" });
}

function kubeconfigObject(cluster: object, user: object = {}): unknown {
  return {
    clusters: [{ name: "pod", cluster }],
    users: [{ name: "pod", user }],
    contexts: [{ name: "pod", context: { cluster: "pod", user: "pod" } }],
    "current-context": "pod",
  };
}
