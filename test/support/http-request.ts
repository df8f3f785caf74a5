import type { HttpRequest } from "../../src/daemon/http/http-listener.ts";

/** A GET request from this node for `/path?query`. */
export function httpRequest(target: string, overrides: Partial<HttpRequest> = {}): HttpRequest {
  const [path = "", query] = target.split("?");
  return {
    method: "GET",
    path,
    query: new URLSearchParams(query),
    acceptsGzip: false,
    accept: "",
    authorization: "",
    isFromThisNode: true,
    readBody: () => Promise.resolve(""),
    ...overrides,
  };
}
