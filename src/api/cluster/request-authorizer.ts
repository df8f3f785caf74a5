import { createHash } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import type { ApiConnection } from "../connection.ts";
import { fieldOf, pathOf } from "../decode/fields.ts";
import { expectSuccess, readJson } from "./answers.ts";

/** `unknown`: the API server does not know the token. `unavailable`: it did not answer. */
export type Access = "allowed" | "unknown" | "forbidden" | "unavailable";

/** A request to one of this program's servers. */
export interface AuthorizedRequest {
  /** Such as `/metrics`. */
  readonly path: string;
  /** In lower case, such as `get`. */
  readonly verb: string;
  readonly token: string;
}

/** How long an answer is reused. A revoked token or permission remains valid for at most this long. */
const reuseMs = 10_000;
const maxRemembered = 1_000;
/** Further requests are refused, so that a client with many invalid tokens cannot occupy the API connection. */
const maxWaiting = 20;
const timeoutMs = 10_000;

/**
 * Asks the API server whether a bearer token's user may request a path, as kubelet and kube-rbac-proxy do
 * (TokenReview and SubjectAccessReview). Needs the permissions of the ClusterRole system:auth-delegator.
 */
export class RequestAuthorizer {
  readonly #connection: ApiConnection;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #remembered = new Map<string, { readonly access: Access; readonly untilMs: number }>();
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #isFailing = false;

  constructor({
    connection,
    clock,
    log,
  }: {
    readonly connection: ApiConnection;
    readonly clock: Clock;
    readonly log: Logger;
  }) {
    this.#connection = connection;
    this.#clock = clock;
    this.#log = log;
  }

  /** Determines whether a request is allowed. Reviews one request at a time. Never rejects. */
  async access(request: AuthorizedRequest): Promise<Access> {
    const { path, verb, token } = request;
    const key = createHash("sha256").update(`${verb} ${path} ${token}`).digest("base64");
    const known = this.#recall(key);
    if (known !== undefined) return known;
    if (this.#waiting >= maxWaiting) return "unavailable";
    this.#waiting += 1;
    const review = this.#last.then(async () => {
      const access = this.#recall(key) ?? (await this.#review(request));
      if (access !== "unavailable") this.#remember(key, access);
      this.#waiting -= 1;
      return access;
    });
    this.#last = review;
    return await review;
  }

  #recall(key: string): Access | undefined {
    const known = this.#remembered.get(key);
    return known !== undefined && known.untilMs > this.#clock.monotonicMs()
      ? known.access
      : undefined;
  }

  #remember(key: string, access: Access): void {
    this.#remembered.delete(key);
    const [oldest] = this.#remembered.keys();
    if (oldest !== undefined && this.#remembered.size >= maxRemembered)
      this.#remembered.delete(oldest);
    this.#remembered.set(key, { access, untilMs: this.#clock.monotonicMs() + reuseMs });
  }

  async #review({ path, verb, token }: AuthorizedRequest): Promise<Access> {
    try {
      const user = await this.#create("authentication", "TokenReview", { token });
      if (fieldOf(user, "authenticated") !== true) return this.#answered("unknown");
      const { username, uid, groups, extra } = (fieldOf(user, "user") ?? {}) as Partial<
        Record<string, unknown>
      >;
      const decision = await this.#create("authorization", "SubjectAccessReview", {
        ...{ user: username, uid, groups, extra },
        nonResourceAttributes: { path, verb },
      });
      return this.#answered(fieldOf(decision, "allowed") === true ? "allowed" : "forbidden");
    } catch (error) {
      if (!this.#isFailing)
        this.#log.error("Cannot check the token of a metrics request", { err: errorText(error) });
      this.#isFailing = true;
      return "unavailable";
    }
  }

  /** Records that the API server has answered, so that the next failure is logged again. */
  #answered(access: Access): Access {
    this.#isFailing = false;
    return access;
  }

  /** Creates a review and returns its status. Throws ApiError. */
  async #create(
    area: "authentication" | "authorization",
    kind: "TokenReview" | "SubjectAccessReview",
    spec: object,
  ): Promise<unknown> {
    const group = `${area}.k8s.io`;
    const name = `${kind.toLowerCase()}s.${group}`;
    const abort = new AbortController();
    const cancel = this.#clock.after(timeoutMs, () => abort.abort());
    try {
      const response = await this.#connection.send(
        {
          method: "POST",
          path: `/apis/${group}/v1/${kind.toLowerCase()}s`,
          contentType: "application/json",
          body: JSON.stringify({ apiVersion: `${group}/v1`, kind, spec }),
        },
        abort.signal,
      );
      const advice = (status: number): string =>
        status === 403 ? "; bind kube-ipvs's user to the ClusterRole system:auth-delegator" : "";
      await expectSuccess({ name, operation: `create ${name}`, advice }, response);
      return pathOf(await readJson({ name }, response), "status");
    } finally {
      cancel();
    }
  }
}
