/** The types that a kubeconfig's fields must have. Values are never printed: among them are tokens and keys. Pure. */
import { fieldOf } from "../decode/fields.ts";

/** Fields that are text where they are given, by list and by the object in each entry (clientcmd/api/v1). */
const textFields = {
  clusters: {
    entry: "cluster",
    fields: [
      ...["server", "tls-server-name", "proxy-url"],
      ...["certificate-authority", "certificate-authority-data"],
    ],
  },
  contexts: { entry: "context", fields: ["cluster", "user", "namespace"] },
  users: {
    entry: "user",
    fields: [
      ...["token", "tokenFile", "username", "password", "as", "as-uid"],
      ...["client-certificate", "client-certificate-data", "client-key", "client-key-data"],
    ],
  },
} as const;

/** What is wrong with the types: `clusters[0].cluster.server must be text`; `undefined`: nothing. */
export function kubeconfigTypeProblem(kubeconfig: unknown): string | undefined {
  if (!isTextOrAbsent(fieldOf(kubeconfig, "current-context")))
    return "current-context must be a string";
  for (const [list, { entry, fields }] of Object.entries(textFields)) {
    const entries = fieldOf(kubeconfig, list) ?? [];
    if (!Array.isArray(entries)) return `${list} must be a list`;
    for (const [index, given] of entries.entries()) {
      const place = `${list}[${index}]`;
      if (typeof fieldOf(given, "name") !== "string") return `${place}.name must be a string`;
      const wrong = fields.find((name) => !isTextOrAbsent(fieldOf(fieldOf(given, entry), name)));
      if (wrong !== undefined) return `${place}.${entry}.${wrong} must be a string`;
    }
  }
  return undefined;
}

function isTextOrAbsent(value: unknown): boolean {
  return value === undefined || value === null || typeof value === "string";
}
