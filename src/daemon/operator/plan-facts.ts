/** What is planned about some addresses and ports: each mode says it its own way. */
import type { PlanFacts, PlanQuery } from "./answers.ts";
import type { ModeView } from "./daemon-view.ts";
import { ipvsFacts } from "./ipvs-facts.ts";
import { listenerFacts } from "./listener-facts.ts";
import { tablesFacts } from "./tables-facts.ts";

/** Rejects where the kernel does not answer for counts of connections. */
export function planFacts(view: ModeView, query: PlanQuery): Promise<PlanFacts> {
  switch (view.mode) {
    case "ipvs":
      return ipvsFacts(view, query);
    case "iptables":
      return tablesFacts(view, query);
    case "userspace":
      return listenerFacts(view, query);
  }
}
