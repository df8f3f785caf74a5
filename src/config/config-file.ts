import { isRecord } from "../base/is-record.ts";
import { systemErrorText } from "../base/system-error-text.ts";
import { parseYamlDocuments, type YamlDocument } from "../base/yaml.ts";
import { ConfigError, type ConfigProblem } from "./config-error.ts";
import type { ConfigNotice } from "./notice.ts";

export const configApiVersion = "kubeproxy.config.k8s.io/v1alpha1";
export const configKind = "KubeProxyConfiguration";

export interface ConfigFile {
  readonly text: string;
  /** The KubeProxyConfiguration without apiVersion and kind. Its fields are not validated yet. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly notices: readonly ConfigNotice[];
}

/**
 * Reads a KubeProxyConfiguration. Throws {@link ConfigError} if the file is unreadable, not YAML, or of a different
 * kind.
 */
export function readConfigFile(path: string, readFile: (path: string) => string): ConfigFile {
  const text = readFileText(path, readFile);
  const documents = parseYamlDocuments(text);
  const document = documents[0];
  if (document === undefined) throw new ConfigError([{ path, reason: "the file is empty" }]);
  const syntax = document.problems.filter((problem) => problem.kind === "syntax");
  if (syntax.length > 0) throw new ConfigError(syntax.map((problem) => problemAt(path, problem)));
  return { text, fields: checkKind(path, document), notices: noticesOf(path, documents) };
}

function readFileText(path: string, readFile: (path: string) => string): string {
  try {
    return readFile(path);
  } catch (error) {
    const reason = `cannot be read: ${systemErrorText(error)}`;
    throw new ConfigError([{ path: "--config", value: path, reason }]);
  }
}

function checkKind(path: string, { value }: YamlDocument): ConfigFile["fields"] {
  if (!isRecord(value)) throw new ConfigError([{ path, reason: `must be a ${configKind}` }]);
  const wrong = Object.entries({ apiVersion: configApiVersion, kind: configKind }).filter(
    ([path, wanted]) => value[path] !== wanted,
  );
  if (wrong.length > 0) {
    throw new ConfigError(
      wrong.map(([path, wanted]) => ({ path, value: value[path], reason: `must be ${wanted}` })),
    );
  }
  const { apiVersion: _version, kind: _kind, ...fields } = value;
  return fields;
}

type Problem = YamlDocument["problems"][number];

function problemAt(path: string, { line, column, reason }: Problem): ConfigProblem {
  return { path: `${path}:${line}:${column}`, reason };
}

/** Duplicate fields and additional documents cause only notices, because kube-proxy tolerates them too. */
function noticesOf(path: string, documents: readonly YamlDocument[]): readonly ConfigNotice[] {
  const twice = (documents[0]?.problems ?? []).map(
    ({ line, reason }): ConfigNotice => ({
      level: "warn",
      event: "Duplicate configuration field, using the last value",
      keys: { path: `${path}:${line}`, reason },
      ignored: `${path}:${line}`,
    }),
  );
  if (documents.length === 1) return twice;
  const event = "Configuration file contains multiple documents, using the first";
  return [...twice, { level: "warn", event, keys: { path }, ignored: path }];
}
