/** Asks one endpoint for its weight over HTTP. The answer is untrusted, and its length is strictly limited. */
import { get } from "node:http";
import { hostPort } from "../../base/ip.ts";
import { largestAnswer } from "../../model/tuning.ts";
import type { WeightRequest } from "../../plan/weight-requests.ts";

/** Time limit for the whole exchange. Must be less than the shortest period between two requests. */
const timeoutMs = 900;
const maxHeaderSize = 4_096;
/** Enough for a number and some white space. */
const maxBodyBytes = 16;

/** A weight, or the reason why there is none. */
export type AskedWeight = { readonly weight: number } | { readonly problem: string };

export type AskWeight = (request: WeightRequest) => Promise<AskedWeight>;

/** Never rejects. Follows no redirects, sends no credentials and reads at most `maxBodyBytes`. */
export const askWeight: AskWeight = ({ address, port, path }) =>
  new Promise((resolve) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const fail = (problem: string): void => {
      resolve({ problem });
      request.destroy();
    };
    const request = get({
      ...{ host: address, port, path, signal, maxHeaderSize, agent: false },
      headers: { host: hostPort(address, port), accept: "text/plain", connection: "close" },
    });
    request.on("error", ({ code = "no valid HTTP" }: NodeJS.ErrnoException) =>
      fail(signal.aborted ? `no complete answer within ${timeoutMs} ms` : code),
    );
    // An endpoint could send any number of informational responses.
    request.on("information", ({ statusCode }) => fail(`status ${statusCode}`));
    request.on("response", (response) => {
      if (response.statusCode !== 200) return fail(`status ${response.statusCode}`);
      let body = "";
      response.setEncoding("latin1");
      response.on("data", (text: string) => {
        body += text;
        if (body.length > maxBodyBytes) fail(`more than ${maxBodyBytes} bytes`);
      });
      response.on("error", () => fail("an incomplete answer"));
      response.on("end", () => {
        const weight = parseAnswer(body);
        if (weight === undefined) fail(`not a number from 0 to ${largestAnswer}`);
        else resolve({ weight });
      });
    });
  });

function parseAnswer(body: string): number | undefined {
  const text = body.trim();
  if (!/^\d{1,3}$/.test(text)) return undefined;
  const weight = Number(text);
  return weight <= largestAnswer ? weight : undefined;
}
