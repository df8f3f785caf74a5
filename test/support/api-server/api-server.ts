import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer, type ServerOptions } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { ApiObject } from "../objects.ts";
import { type Attributes, attributesOf } from "./access.ts";
import { BodyWriter } from "./body-writer.ts";
import { EventStore } from "./event-store.ts";
import { type Fault, FaultQueue } from "./faults.ts";
import { ListAnswer, type ResourceRequest } from "./list-answer.ts";
import { ObjectStore } from "./object-store.ts";
import { bodyOf, ObjectWrites } from "./object-writes.ts";
import { PodExec, type StartCommand } from "./pod-exec.ts";
import { resetSocket } from "./reset-socket.ts";
import { selectorOf } from "./selectors.ts";
import { servedAt } from "./served-resources.ts";
import { SliceWrites } from "./slice-writes.ts";
import { sendStatus, statusObject } from "./status.ts";
import { sendVersion } from "./version.ts";
import { WatchStream } from "./watch-stream.ts";

export interface ApiServerOptions {
  readonly objects?: readonly ApiObject[];
  /** Port to listen on. 0 or absent selects a free port. */
  readonly port?: number;
  /** Address to listen on, by default 127.0.0.1. */
  readonly host?: string;
  /** Options for HTTPS. If absent, the server uses HTTP. */
  readonly tls?: ServerOptions;
  /** The bearer token that requests must contain. Other requests get 401. */
  readonly token?: string;
  /** Interval between bookmarks, by default 60 s as in a real API server. */
  readonly bookmarkIntervalMs?: number;
  readonly firstRevision?: number;
  /** How long an idle connection stays open, by default 5 s as in Node.js. */
  readonly keepAliveMs?: number;
}

const reviewPath = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const selfReviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/** A received request, for tests that count requests. */
export interface SeenRequest {
  readonly method: string;
  readonly verb: "list" | "watch" | "write";
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, unknown>>;
  /** Common name in the client certificate. Empty if there is no certificate. */
  readonly clientName: string;
}

/**
 * An API server for tests, over real HTTP: paginated lists, watches with bookmarks, selectors and 410. On request, it
 * misbehaves like real API servers. It does not validate objects.
 */
export class ApiServer {
  readonly store: ObjectStore;
  /** The Events that clients wrote. They cannot be watched. */
  readonly events: EventStore = new EventStore();
  readonly lists: ListAnswer;
  readonly #sliceWrites: SliceWrites;
  /** Namespaces, pods and Services that clients wrote. */
  readonly writes: ObjectWrites;
  readonly faults: FaultQueue = new FaultQueue();
  readonly requests: SeenRequest[] = [];
  /** Whether a watch from an expired revision gets an ERROR event instead of status 410. */
  tellsGoneAsEvent = false;
  /** The valid bearer token. If undefined, every token is valid. */
  token: string | undefined;
  /** The version in the response to /version. If undefined, no user may read that path. */
  gitVersion: string | undefined = "v1.36.2";
  /** Whether the owner of a bearer token may make a request. If absent, every request is allowed. */
  authorize: ((token: string, attributes: Attributes) => boolean) | undefined;
  /** Answers SubjectAccessReviews. If absent, the path does not exist. */
  review: ((user: string, attributes: Attributes) => boolean) | undefined;
  /** Starts the command of a pods/exec request. By default, no pods exist. */
  startCommand: StartCommand = () => undefined;
  readonly #podExec = new PodExec();
  readonly #options: ApiServerOptions;
  readonly #server: Server;
  readonly #watches = new Set<WatchStream>();
  readonly #sockets = new Set<Socket>();
  readonly #bookmarks: NodeJS.Timeout;

  private constructor(options: ApiServerOptions) {
    this.#options = options;
    this.token = options.token;
    this.store = new ObjectStore(options.firstRevision);
    for (const object of options.objects ?? []) this.store.apply(object);
    this.lists = new ListAnswer(this.store);
    this.#sliceWrites = new SliceWrites(this.store);
    this.writes = new ObjectWrites(this.store);
    const answer = (request: IncomingMessage, response: ServerResponse): void =>
      this.#answer(request, response);
    this.#server =
      options.tls === undefined ? createServer(answer) : createTlsServer(options.tls, answer);
    if (options.keepAliveMs !== undefined) this.#server.keepAliveTimeout = options.keepAliveMs;
    this.#server.on("upgrade", (request, socket, head) => {
      if (this.#isForbidden(request)) socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
      else this.#podExec.answer(request, socket, head, this.startCommand);
    });
    this.#server.on("connection", (socket) => this.#noteSocket(socket));
    this.#bookmarks = setInterval(() => this.sendBookmarks(), options.bookmarkIntervalMs ?? 60_000);
    this.#bookmarks.unref();
  }

  static async start(options: ApiServerOptions = {}): Promise<ApiServer> {
    const server = new ApiServer(options);
    await new Promise<void>((resolve, reject) => {
      server.#server.once("error", reject);
      server.#server.listen(options.port ?? 0, options.host ?? "127.0.0.1", resolve);
    });
    return server;
  }

  /** `http://127.0.0.1:40123`. */
  get url(): string {
    const { address, port } = this.#server.address() as AddressInfo;
    return `${this.#options.tls === undefined ? "http" : "https"}://${address}:${port}`;
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  /** Stops immediately, cutting watches and connections. */
  async stop(): Promise<void> {
    clearInterval(this.#bookmarks);
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.resetConnections();
    await closed;
  }

  apply(...objects: readonly ApiObject[]): void {
    this.store.apply(...objects);
  }

  delete(...objects: readonly Pick<ApiObject, "kind" | "metadata">[]): void {
    this.store.delete(...objects);
  }

  sendBookmarks(): void {
    for (const watch of this.#watches) watch.bookmark(this.store.revision);
  }

  /** Ends all watches as an API server timeout does. */
  endWatches(): void {
    for (const watch of this.#watches) watch.end();
  }

  /** Sends a text to all watches, such as half a line, invalid JSON or an ERROR event. */
  sendToWatches(text: string): void {
    for (const watch of this.#watches) watch.sendText(text);
  }

  /** From now on, keeps watches open without sending anything, not even bookmarks. */
  stallWatches(): void {
    for (const watch of this.#watches) watch.stall();
  }

  /** Cuts every connection with a TCP reset. */
  resetConnections(): void {
    for (const socket of this.#sockets) resetSocket(socket);
  }

  #noteSocket(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    socket.on("error", () => socket.destroy());
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "/", "http://server");
    if (url.pathname === "/version") {
      sendVersion(response, this.gitVersion);
      return;
    }
    if (url.pathname === selfReviewPath) {
      void this.#review(request, response);
      return;
    }
    if (this.#isForbidden(request)) {
      sendStatus(response, 403, `forbidden: ${request.method} ${url.pathname}`);
      return;
    }
    if (url.pathname === reviewPath && this.review !== undefined) {
      void this.#review(request, response);
      return;
    }
    const target = ObjectWrites.targetOf(request, url.pathname);
    if (target !== undefined) {
      void this.writes.answer(target, request, response, url.searchParams);
      return;
    }
    const served = servedAt(url.pathname);
    const isSliceWrite = SliceWrites.isWritePath(url.pathname);
    const isWrite = EventStore.isEventPath(url.pathname) || isSliceWrite;
    if (served === undefined && !isWrite) {
      sendStatus(response, 404, `No such path: ${url.pathname}`);
      return;
    }
    const query = url.searchParams;
    const isWatch = ["1", "true"].includes(query.get("watch") ?? "");
    const verb = isWrite ? "write" : isWatch ? "watch" : "list";
    const { headers } = request;
    const clientName = clientNameOf(request);
    this.requests.push({
      method: request.method ?? "",
      verb,
      path: url.pathname,
      query: Object.fromEntries(query),
      headers,
      clientName,
    });
    if (this.token !== undefined && headers.authorization !== `Bearer ${this.token}`) {
      sendStatus(response, 401, "Unauthorized");
      return;
    }
    const fault = this.faults.take({ verb, path: url.pathname });
    if (fault?.effect === "reset") resetSocket(request.socket);
    if (fault?.effect === "status") sendFault(response, fault);
    if (fault !== undefined && ["hang", "reset", "status"].includes(fault.effect)) return;
    if (isSliceWrite) void this.#sliceWrites.answer(url.pathname, request, response);
    else if (served === undefined) void this.events.answer(url.pathname, request, response);
    else if (verb === "list") this.lists.send(response, { served, query, fault });
    else this.#watch(response, { served, query, fault });
  }

  #isForbidden(request: IncomingMessage): boolean {
    const { method = "GET", url = "/" } = request;
    const { pathname, searchParams } = new URL(url, "http://server");
    const attributes = attributesOf(method, pathname, searchParams);
    if (this.authorize === undefined || attributes === undefined) return false;
    return !this.authorize(tokenOf(request), attributes);
  }

  async #review(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const review = (await bodyOf(request)) as {
      readonly spec: { readonly user?: string; readonly resourceAttributes: Attributes };
    };
    const { user, resourceAttributes } = review.spec;
    const allowed =
      user === undefined
        ? this.authorize?.(tokenOf(request), resourceAttributes) !== false
        : this.review?.(user, resourceAttributes) === true;
    response.writeHead(201, { "content-type": "application/json" });
    response.end(JSON.stringify({ ...review, status: { allowed } }));
  }

  #watch(response: ServerResponse, { served, query, fault }: ResourceRequest): void {
    if (query.has("sendInitialEvents")) {
      sendStatus(response, 422, "sendInitialEvents is forbidden without feature gate WatchList");
      return;
    }
    const selects = selectorOf(query);
    const since = query.get("resourceVersion") ?? "";
    const missed = since === "" || since === "0" ? [] : this.store.since(Number(since));
    const isGone = missed === undefined;
    if (isGone && !this.tellsGoneAsEvent) {
      sendStatus(response, 410, `too old resource version: ${since}`);
      return;
    }
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const body = new BodyWriter(response, fault);
    const sendsBookmarks = query.get("allowWatchBookmarks") === "true";
    const watch = new WatchStream(body, { served, selects, sendsBookmarks });
    if (isGone) {
      watch.send("ERROR", statusObject(410, `too old resource version: ${since}`));
      watch.end();
      return;
    }
    const present = since === "" || since === "0" ? this.store.list(served.resource) : [];
    for (const object of present.filter(selects)) watch.sendObject("ADDED", object);
    for (const event of missed) watch.tell(event);
    this.#keepOpen(response, watch, Number(query.get("timeoutSeconds") ?? 0));
  }

  #keepOpen(response: ServerResponse, watch: WatchStream, timeoutSeconds: number): void {
    this.#watches.add(watch);
    const unsubscribe = this.store.subscribe((event) => watch.tell(event));
    const timer =
      timeoutSeconds > 0 ? setTimeout(() => watch.end(), timeoutSeconds * 1000) : undefined;
    response.on("close", () => {
      clearTimeout(timer);
      unsubscribe();
      this.#watches.delete(watch);
    });
  }
}

function tokenOf({ headers }: IncomingMessage): string {
  return (headers.authorization ?? "").replace(/^Bearer /, "");
}

function clientNameOf({ socket }: IncomingMessage): string {
  if (!("getPeerCertificate" in socket)) return "";
  const { subject } = (socket as TLSSocket).getPeerCertificate();
  return String(subject?.CN ?? "");
}

function sendFault(response: ServerResponse, fault: Extract<Fault, { effect: "status" }>): void {
  const { code, retryAfterSeconds } = fault;
  if (retryAfterSeconds !== undefined) response.setHeader("retry-after", String(retryAfterSeconds));
  sendStatus(response, code, `Injected status ${code}`);
}
