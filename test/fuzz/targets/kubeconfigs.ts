/** Reads kubeconfigs up to the point where a request could be sent. Does not start plugins. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { parse } from "yaml";
import { ApiError } from "../../../src/api/api-error.ts";
import { ClientConfig } from "../../../src/api/cluster/client-config.ts";
import { readKubeconfigText } from "../../../src/api/cluster/kubeconfig-file.ts";
import { readCorpusTexts } from "../corpus.ts";
import { mutatedTexts, mutatedTrees } from "../mutations.ts";
import { type FuzzTarget, type Verdict, verdictOf } from "../target.ts";

/** The token, password or key in every saved file. */
const secret = "s3cr3t";

/** A change may move the secret to a name or an address, which are printed. */
const isShown = new RegExp(`(?:server|name|user|cluster|current-context)["']?:.*${secret}`, "u");

function open(text: string): Verdict {
  return verdictOf(
    () => {
      const kubeconfig = readKubeconfigText(text, "/etc/kubeconfig");
      const { server, certifiedName } = new ClientConfig(kubeconfig, "");
      assert.match(server, /^https?:\/\/[^/]/);
      assert.ok(typeof certifiedName === "string" && certifiedName !== "");
    },
    (error) => {
      if (!(error instanceof ApiError)) return false;
      assert.equal(error.reason, "invalid-kubeconfig");
      assert.doesNotMatch(error.message, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
      if (!isShown.test(text)) assert.ok(!error.message.includes(secret), error.message);
      return true;
    },
  );
}

const kept = readCorpusTexts("kubeconfigs");
/** JSON is valid YAML. */
const trees = mutatedTrees(kept.map((text) => parse(text) as unknown)).map(
  (tree) => JSON.stringify(tree) ?? "",
);

export const targets: readonly FuzzTarget<string>[] = [
  {
    name: "kubeconfigs",
    isDecoder: false,
    kept,
    inputs: fc.oneof(trees, mutatedTexts(kept)),
    run: open,
  },
];
