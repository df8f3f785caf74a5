import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ApiObject } from "../objects.ts";
import type { ApiServer } from "./api-server.ts";
import type { Fault } from "./faults.ts";

type Command = (server: ApiServer, body: unknown) => unknown;

/** Commands for a server in another process, such as `POST /apply` with a JSON body. */
const commands: Readonly<Record<string, Command>> = {
  /** Body: an object or a list of objects. */
  apply: (server, body) => server.apply(...asList<ApiObject>(body)),
  /** Body: objects, identified by kind, metadata.namespace and metadata.name. */
  delete: (server, body) => server.delete(...asList<ApiObject>(body)),
  /** Body: a fault or a list of faults. */
  fault: (server, body) => {
    for (const fault of asList<Fault>(body)) server.faults.add(fault);
  },
  "clear-faults": (server) => server.faults.clear(),
  compact: (server) => server.store.compact(),
  bookmark: (server) => server.sendBookmarks(),
  "end-watches": (server) => server.endWatches(),
  "stall-watches": (server) => server.stallWatches(),
  reset: (server) => server.resetConnections(),
  "expire-continues": (server) => server.lists.expireContinues(),
  /** Body: true or false. */
  "ignore-limit": (server, body) => {
    server.lists.ignoresLimit = body === true;
  },
  /** Body: a text for all watches. */
  "send-to-watches": (server, body) => server.sendToWatches(String(body)),
  /** Returns the requests since the last call. */
  requests: (server) => server.requests.splice(0),
  /** Returns the Events that clients wrote. */
  events: (server) => server.events.events,
  /** Returns numbers that a test can wait for. */
  state: (server) => ({
    openWatches: server.openWatches,
    revision: server.store.revision,
    faultsLeft: server.faults.left,
  }),
};

/** Serves the commands on a separate port, so that API server faults do not affect them. */
export async function startControl(
  server: ApiServer,
  options: { readonly port: number; readonly host: string },
): Promise<{ readonly url: string; readonly close: () => void }> {
  const control: Server = createServer((request, response) => {
    answer(server, request, response).catch((error: unknown) => {
      response.writeHead(500).end(`${String(error)}\n`);
    });
  });
  await new Promise<void>((resolve, reject) => {
    control.once("error", reject);
    control.listen(options.port, options.host, resolve);
  });
  const { address, port } = control.address() as AddressInfo;
  return { url: `http://${address}:${port}`, close: () => control.close() };
}

async function answer(
  server: ApiServer,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const name = (request.url ?? "/").slice(1);
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) {
    response
      .writeHead(404)
      .end(`No such command; the commands are: ${Object.keys(commands).join(", ")}\n`);
    return;
  }
  const text = await textOf(request);
  const body: unknown = text === "" ? undefined : JSON.parse(text);
  const result = command(server, body) ?? {};
  response.writeHead(200, { "content-type": "application/json" });
  response.end(`${JSON.stringify(result)}\n`);
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

function asList<T>(body: unknown): readonly T[] {
  return Array.isArray(body) ? (body as readonly T[]) : [body as T];
}
