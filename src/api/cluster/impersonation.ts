/** Impersonation: `as`, `as-groups`, `as-uid` and `as-user-extra` of a kubeconfig's user. Pure. */
import { fieldOf, pathOf } from "../decode/fields.ts";
import { invalidKubeconfig, type Kubeconfig } from "./kubeconfig-file.ts";

/** Request headers; several values stand for several headers of one name. */
export type ImpersonationHeaders = Readonly<Record<string, string | readonly string[]>>;

/**
 * The headers that the user of this name asks for. Throws ApiError `invalid-kubeconfig` where a group, an id or more is to be taken and no
 * user, which no API server accepts.
 */
export function impersonationHeaders(
  { object, origin }: Kubeconfig,
  userName: string,
): ImpersonationHeaders {
  const users = fieldOf(object, "users");
  const entries: readonly unknown[] = Array.isArray(users) ? users : [];
  const user = fieldOf(
    entries.find((entry) => fieldOf(entry, "name") === userName),
    "user",
  );
  const headers = {
    ...textHeader("impersonate-user", fieldOf(user, "as")),
    ...textHeader("impersonate-uid", fieldOf(user, "as-uid")),
    ...listHeader("impersonate-group", fieldOf(user, "as-groups")),
    ...extraHeaders(pathOf(user, "as-user-extra")),
  };
  if (Object.keys(headers).length > 0 && !("impersonate-user" in headers)) {
    const why = `user ${userName} has as-groups, as-uid or as-user-extra but not as`;
    throw invalidKubeconfig(origin, why);
  }
  return headers;
}

function textHeader(name: string, value: unknown): ImpersonationHeaders {
  return typeof value === "string" && value !== "" ? { [name]: value } : {};
}

function listHeader(name: string, value: unknown): ImpersonationHeaders {
  const texts = Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
  return texts.length === 0 ? {} : { [name]: texts };
}

/** Keys may hold what a header's name may not: it is percent-encoded, as client-go does. */
function extraHeaders(value: unknown): ImpersonationHeaders {
  if (typeof value !== "object" || value === null) return {};
  const headers = Object.entries(value).map(([key, values]) =>
    listHeader(`impersonate-extra-${encodeURIComponent(key).toLowerCase()}`, values),
  );
  return Object.assign({}, ...headers) as ImpersonationHeaders;
}
