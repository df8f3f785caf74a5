import assert from "node:assert/strict";
import { type LabNode, until } from "./lab-node.ts";
import { type ApiObject, service } from "./objects.ts";
import { patienceMs } from "./patience.ts";
import { kubeIpvs } from "./run-kube-ipvs.ts";

/** Tests that `status` lists an invalid Service until it is repaired. `objects` are the node's other objects. */
export async function listsInvalidObject(
  node: LabNode,
  objects: readonly ApiObject[],
): Promise<void> {
  const prints = (command: string, wanted: RegExp): Promise<void> => {
    const print = async (): Promise<string> => kubeIpvs(command).out;
    return until(async () => wanted.test(await print()), patienceMs, print);
  };
  node.apply(...objects, service({ name: "invalid", clusterIps: ["10.96.0.300"], ports: [] }));
  await prints(
    "status",
    /^Invalid objects +1\n {2}Cannot use .*Service default\/invalid: .* \(and 1 more\)$/m,
  );
  const { counts, invalidObjects } = JSON.parse(kubeIpvs("status", "-o", "json").out);
  assert.equal(counts.invalidObjects, 1);
  assert.equal(invalidObjects[0].subject, "default/invalid");
  node.apply(...objects, service({ name: "invalid", clusterIps: ["10.96.0.40"] }));
  await prints("status", /^Invalid objects +0$/m);
  node.apply(...objects);
  await prints("services", /^(?![\s\S]*10\.96\.0\.40)/);
}
