import { type EventRecorder, silentEvents } from "../../api/event.ts";
import { errorText } from "../../base/error-text.ts";
import { ListenError } from "../http/http-listener.ts";
import { startFailedEvent } from "../report/events.ts";

/** Reports to the cluster why the program ends, once there is a way to it; the end waits a moment for the delivery. */
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
    // A port that cannot be opened has an event of its own, kube-proxy's.
    if (error instanceof ListenError) return;
    this.#events.record(startFailedEvent(this.#nodeName, errorText(error)));
  }
}
