import type { RequestObserver } from "../../api/connection.ts";
import type { Clock } from "../../base/clock.ts";
import type { Config } from "../../config/config.ts";
import { ApiContact } from "../report/api-contact.ts";

/** A person waits: the fourth failure in a row says no more than the first. */
export const longestSilenceMs = 20_000;
const checkPeriodMs = 1_000;

/** Gives up on an API server, for commands that ask once; the daemon tries for ever. */
export interface AnswerDeadline {
  /** To be notified of every request. */
  readonly observer: RequestObserver;
  /** Rejects when requests have failed, or the first one has waited, for {@link longestSilenceMs}; never resolves. */
  readonly expired: Promise<never>;
  stop(): void;
}

export function answerDeadline(
  { objectsFrom }: Pick<Config, "objectsFrom">,
  clock: Clock,
): AnswerDeadline {
  const contact = new ApiContact(clock);
  const { promise, reject } = Promise.withResolvers<never>();
  // Whoever waits for it hears of it; before that it is no uncaught error.
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
  const what = isAnswering ? `answered ${failing.code}` : "gave no answer";
  const advice = isAnswering
    ? `check the ${failing.code === "401" ? "credentials" : "rights of the account"} in --kubeconfig`
    : "check --config, --kubeconfig or --master: the address must work from this node";
  return new Error(`${server} ${what} for ${longestSilenceMs / 1000} s; ${advice}`);
}
