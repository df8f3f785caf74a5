import type { Destination, ListenerFact } from "../../answer/answers.ts";
import { differencesAbout } from "../differences.ts";
import { followToListener } from "../packet/follow-to-listener.ts";
import type { ExplainedMode } from "./mode.ts";

/** `listeners`: those that serve the destinations. */
export function userspaceMode(listeners: readonly ListenerFact[]): ExplainedMode {
  return {
    name: "userspace",
    behindChoice: "on their way to the endpoint",
    follow: (walk) => followToListener(walk, listeners),
    // They are not applied.
    sourceRanges: () => [],
    sourceRangeText: () => "",
    masqueradeText: ({ end }) =>
      end.kind === "taken" && end.endpoints.length > 0
        ? "kube-ipvs connects itself, so the endpoint sees this node"
        : undefined,
    localDetector: () => undefined,
    differences: (compared) =>
      differencesAbout(compared, withListeners(compared.destination, listeners), isOurs),
  };
}

/** Rules let in what comes to the ports of listeners. */
export function withListeners(
  destination: Destination,
  listeners: readonly ListenerFact[],
): readonly Destination[] {
  const led = listeners.flatMap(({ protocol, port, portOnLoopback }) =>
    [...new Set([port, portOnLoopback])].map((one) => ({ ...destination, protocol, port: one })),
  );
  return [destination, ...led];
}

function isOurs(key: string): boolean {
  return key.includes(" KUBE-");
}
