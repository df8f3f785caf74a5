/** The thread of a station (station.ts). It enters the namespace with the station's name, then executes requests. */
import { parentPort, workerData } from "node:worker_threads";
import { enterNetworkNamespace } from "../support/netns/network-namespace.ts";
import { answerOn } from "./answer.ts";
import { ask } from "./ask.ts";
import type { Call, Reply } from "./probe.ts";

const name = workerData as string;
enterNetworkNamespace(name);

async function reply({ id, request }: Call): Promise<Reply> {
  try {
    if (request.kind === "probe") return { id, outcome: await ask(request.probe) };
    await answerOn(request.listeners, name);
    return { id };
  } catch (error) {
    return { id, error: String(error) };
  }
}

parentPort?.on("message", (call: Call) => {
  void reply(call).then((value) => parentPort?.postMessage(value));
});
