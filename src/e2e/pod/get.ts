/** `kube-ipvs-e2e get URL…`: prints the first page that answers with 200. */
import { once } from "node:events";
import { writeSync } from "node:fs";
import { get, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { errorText } from "../../base/error-text.ts";

const patienceMs = 10_000;

export async function run(urls: readonly string[]): Promise<undefined> {
  const problems: string[] = [];
  for (const url of urls) {
    try {
      writeSync(1, await fetchPage(url));
      return;
    } catch (error) {
      problems.push(`${url}: ${errorText(error)}`);
    }
  }
  throw new Error(problems.join("; "));
}

async function fetchPage(url: string): Promise<string> {
  const request = get(url, { timeout: patienceMs });
  request.on("timeout", () => request.destroy(new Error("timeout")));
  // An error after the response is ignored here, because reading the body rejects too.
  request.on("error", () => {});
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const page = await text(response);
  if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`);
  return page;
}
