import { type Clock, sleep } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import { parseJson } from "../../base/parse-json.ts";
import type { ApiConnection } from "../connection.ts";
import { fieldOf } from "../decode/fields.ts";
import type { ServerVersion } from "../source.ts";
import { parsed } from "./answers.ts";
import { ByteChunks } from "./byte-chunks.ts";
import { readBody } from "./watched-request.ts";

/** Every user may read this path (ClusterRole system:public-info-viewer). */
const versionPath = { path: "/version", name: "version" };
const idleMs = 30_000;
const retryMs = 60_000;
/** Interval within which a control plane upgrade is detected. */
const refreshMs = 600_000;
const maxBytes = 65_536;

interface Dependencies {
  readonly connection: ApiConnection;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Reports the API server's version when it first responds and whenever the version changes. Never throws. Ends when
 * `signal` aborts.
 */
export async function followServerVersion(
  dependencies: Dependencies,
  onVersion: (version: ServerVersion) => void,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log } = dependencies;
  let last = "";
  while (!signal.aborted) {
    const version = await readVersion(dependencies, signal).catch((error: unknown) => {
      if (!signal.aborted)
        log.verbose(1, "Cannot read the API server's version", { err: errorText(error) });
      return undefined;
    });
    if (signal.aborted) return;
    if (version !== undefined && version.gitVersion !== last) {
      last = version.gitVersion;
      onVersion(version);
    }
    await sleep(clock, version === undefined ? retryMs : refreshMs, signal);
  }
}

async function readVersion(
  dependencies: Dependencies,
  signal: AbortSignal,
): Promise<ServerVersion> {
  const body = new ByteChunks(maxBytes);
  const request = { resource: versionPath, query: {}, idleMs, signal };
  await readBody(dependencies, request, (chunk) => body.add(chunk));
  return parsed(versionPath, () => parseVersion(body.take()));
}

/**
 * Parses `{"major":"1","minor":"30","gitVersion":"v1.30.4+k3s1",…}`. Some providers write `30+`. Throws SyntaxError.
 */
function parseVersion(text: string): ServerVersion {
  const body = parseJson(text);
  const word = (name: string, form: RegExp): string => {
    const value = fieldOf(body, name);
    if (typeof value === "string" && form.test(value)) return value;
    throw new SyntaxError(`${name} is missing or invalid`);
  };
  return {
    major: word("major", /^\d{1,4}\+?$/),
    minor: word("minor", /^\d{1,4}\+?$/),
    gitVersion: word("gitVersion", /^v\d[\w.+-]{0,100}$/),
  };
}
