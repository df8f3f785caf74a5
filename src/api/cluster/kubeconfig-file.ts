import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { escapeUnprintable } from "../../base/printable.ts";
import { systemErrorText } from "../../base/system-error-text.ts";
import { parseYamlDocuments } from "../../base/yaml.ts";
import { ApiError } from "../api-error.ts";

/** How to reach a cluster, in the words of a kubeconfig. */
export interface Kubeconfig {
  /** The kubeconfig object (`clusters`, `users`, `contexts`, `current-context`). */
  readonly object: unknown;
  /** Relative paths in it are meant from here. */
  readonly folder: string;
  /** For messages: `kubeconfig /etc/x.conf`. */
  readonly origin: string;
}

/** Where a pod finds its credentials. */
const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Reads a kubeconfig file. Throws ApiError `unreadable-kubeconfig` or `invalid-kubeconfig`. */
export async function readKubeconfigFile(path: string): Promise<Kubeconfig> {
  const origin = `kubeconfig ${path}`;
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    const advice = "check --kubeconfig, or clientConnection.kubeconfig of the configuration";
    const message = `Cannot read ${origin}: ${systemErrorText(cause)}; ${advice}`;
    throw new ApiError(message, { reason: "unreadable-kubeconfig", cause });
  });
  return readKubeconfigText(text, path);
}

/** What the kubeconfig at `path` says. Throws ApiError `invalid-kubeconfig`. Pure. */
export function readKubeconfigText(text: string, path: string): Kubeconfig {
  const origin = `kubeconfig ${path}`;
  // A token of digits is text.
  const [document] = parseYamlDocuments(text, { areNumbersText: true });
  const [problem] = document?.problems ?? [];
  if (problem !== undefined) {
    throw invalidKubeconfig(origin, `line ${problem.line}: ${withoutQuotes(problem.reason)}`);
  }
  return { object: document?.value, folder: dirname(path), origin };
}

/** A YAML reader's message without the text that it quotes, which may be a token. */
export function withoutQuotes(reason: string): string {
  return reason.replace(/\s*[:\\"].*$/su, "");
}

/** What `--master` alone says: an address without credentials. */
export function kubeconfigOfMaster(master: string): Kubeconfig {
  const object = kubeconfigObject({ server: master });
  return { object, folder: "/", origin: `--master ${master}` };
}

/**
 * What a pod knows about its cluster: environment and service account. Throws ApiError `no-cluster` outside a
 * pod, or without a token.
 */
export async function kubeconfigOfPod(
  environment: Readonly<Record<string, string | undefined>>,
  folder: string = serviceAccountFolder,
): Promise<Kubeconfig> {
  const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "" } = environment;
  if (host === "" || port === "") {
    const message =
      "Cannot find an API server: neither --kubeconfig nor --master is set, and KUBERNETES_SERVICE_HOST and " +
      "KUBERNETES_SERVICE_PORT are not set as they are in a pod; set --kubeconfig, or --manifests to run without a cluster";
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

/** An error for a kubeconfig that can be read and makes no sense. */
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
