import { exitCodes } from "../../answer/answer.ts";
import type { Command } from "../command.ts";

export const endpointControllerCommand: Command = {
  name: "endpoint-controller",
  summary: "create a cluster's EndpointSlices from its Pods",
  description:
    "Runs a controller for all Services that have a selector. From the selected Pods, the controller " +
    "creates EndpointSlices and keeps them up to date. It uses the daemon's flags for the API server, the " +
    "relist guard and logging, and does not change kernel state.\n" +
    "It skips Services whose EndpointSlices another controller manages.",
  options: [],
  runsOn: true,
  needsNoMode: true,
  examples: [
    {
      command: "kube-ipvs endpoint-controller --kubeconfig /etc/kubernetes/endpoints.conf",
      purpose: "outside the cluster, as a single instance",
    },
    { command: "kube-ipvs endpoint-controller", purpose: "in a pod, with its service account" },
  ],
  run: async ({ programs, config, runContext }) => {
    const { runEndpointController } = await programs.endpointController();
    await runEndpointController(config, runContext());
    return exitCodes.fine;
  },
};
