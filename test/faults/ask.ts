import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";

/** An HTTP request over a new connection, because kept-alive connections do not survive a clock jump. */
export async function ask(
  url: string,
  body?: string,
): Promise<{ readonly status: number; readonly text: string }> {
  const sent = request(url, { agent: false, method: body === undefined ? "GET" : "POST" });
  // If the connection breaks after the headers, reading the body fails. The request's own event must not end the
  // process.
  sent.on("error", () => {});
  sent.end(body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() };
}
