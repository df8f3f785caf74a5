import type { RequestObserver } from "../../api/connection.ts";
import type { Clock } from "../../base/clock.ts";
import type { Config } from "../../config/config.ts";
import { ApiContact } from "../report/api-contact.ts";

/**
 * How long a command waits for the API server. Waiting longer would provide no new information to the person who runs
 * the command.
 */
export const longestSilenceMs = 20_000;
const checkPeriodMs = 1_000;

/** Makes commands that run once give up on an API server. The daemon, in contrast, retries forever. */
export interface AnswerDeadline {
  /** Must be notified of every request. */
  readonly observer: RequestObserver;
  /**
   * Never resolves. Rejects when requests have been failing for {@link longestSilenceMs}, or the first one has gone
   * unanswered for that time.
   */
  readonly expired: Promise<never>;
  stop(): void;
}

export function answerDeadline(
  { objectsFrom }: Pick<Config, "objectsFrom">,
  clock: Clock,
): AnswerDeadline {
  const contact = new ApiContact(clock);
  const { promise, reject } = Promise.withResolvers<never>();
  // A rejection must not be an unhandled error if nothing awaits the promise yet.
  promise.catch(() => {});
  const startedAtMs = clock.monotonicMs();
  let cancel = (): void => {};
  const check = (): void => {
    const { failing, answeredAtMs } = contact;
    const silentSinceMs = failing?.sinceMs ?? (answeredAtMs === undefined ? startedAtMs : Infinity);
    if (clock.monotonicMs() - silentSinceMs >= longestSilenceMs) reject(silence(contact));
    else cancel = clock.after(checkPeriodMs, check);
  };
  if (objectsFrom.kind === "cluster") cancel = clock.after(checkPeriodMs, check);
  return { observer: contact, expired: promise, stop: () => cancel() };
}

function silence({ host, failing }: ApiContact): Error {
  const server = host === undefined ? "The API server" : `API server ${host}`;
  const isAnswering = failing !== undefined && failing.code !== "<error>";
  const what = isAnswering ? `kept answering ${failing.code}` : "did not answer";
  const advice = isAnswering
    ? `check the ${failing.code === "401" ? "credentials" : "account's permissions"} in --kubeconfig`
    : "check --config, --kubeconfig or --master: the address must work from this node";
  return new Error(`${server} ${what} for ${longestSilenceMs / 1000} s; ${advice}`);
}
