import { type EventRecorder, silentEvents } from "../../api/event.ts";
import { errorText } from "../../base/error-text.ts";
import { ListenError } from "../http/http-listener.ts";
import { startFailedEvent } from "../report/events.ts";

/**
 * Records an Event that says why the program exits, if there is an API connection. The exit waits briefly for its
 * delivery.
 */
export class FatalEvents {
  readonly #nodeName: string;
  #events: EventRecorder = silentEvents;

  constructor(nodeName: string) {
    this.#nodeName = nodeName;
  }

  recordWith(events: EventRecorder): void {
    this.#events = events;
  }

  record(error: unknown): void {
    // If a port cannot be opened, the listener has already recorded the same Event as kube-proxy.
    if (error instanceof ListenError) return;
    this.#events.record(startFailedEvent(this.#nodeName, errorText(error)));
  }
}
