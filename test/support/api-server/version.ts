import type { ServerResponse } from "node:http";
import { sendStatus } from "./status.ts";

/** Responds to /version as an API server does. */
export function sendVersion(response: ServerResponse, gitVersion: string | undefined): void {
  if (gitVersion === undefined) {
    sendStatus(response, 403, 'User "proxy" cannot get path "/version"');
    return;
  }
  const [, major, minor] = /^v(\d+)\.(\d+)/.exec(gitVersion) ?? [];
  response.writeHead(200, { "content-type": "application/json" });
  response.end(`${JSON.stringify({ major, minor, gitVersion, platform: "linux/amd64" })}\n`);
}
