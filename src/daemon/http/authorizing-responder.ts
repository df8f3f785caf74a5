import type { Access, RequestAuthorizer } from "../../api/cluster/request-authorizer.ts";
import type { HttpAnswer, HttpResponder } from "./http-listener.ts";
import { textAnswer } from "./pages/answers.ts";

const unauthorized = textAnswer("Unauthorized\n", 401);

const refusals: Readonly<Record<Exclude<Access, "allowed">, HttpAnswer>> = {
  unknown: { ...unauthorized, headers: { ...unauthorized.headers, "WWW-Authenticate": "Bearer" } },
  forbidden: textAnswer("Forbidden\n", 403),
  unavailable: textAnswer("The API server currently cannot check the token\n", 503),
};

/** Answers a request only if the user of its bearer token is allowed to request the path. */
export function authorizingResponder(
  authorizer: Pick<RequestAuthorizer, "access">,
  respond: HttpResponder,
): HttpResponder {
  return async (request) => {
    const token = /^Bearer +(\S+) *$/i.exec(request.authorization)?.[1];
    if (token === undefined) return refusals.unknown;
    const { path, method } = request;
    const access = await authorizer.access({ path, verb: method.toLowerCase(), token });
    return access === "allowed" ? await respond(request) : refusals[access];
  };
}
