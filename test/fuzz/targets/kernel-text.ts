/** What comes from the kernel and its tools as text. */
import assert from "node:assert/strict";
import { parseSaved, SavedTextError } from "../../../src/kernel/iptables/parse.ts";
import { renderRule } from "../../../src/kernel/iptables/render.ts";
import { ProcTableSplitter } from "../../../src/kernel/ipvs/proc-table.ts";
import { DecodeError } from "../../../src/netlink/errors.ts";
import { readCorpusTexts } from "../corpus.ts";
import { mutatedTexts } from "../mutations.ts";
import { type FuzzTarget, type Verdict, verdictOf } from "../target.ts";

function targetOf(name: string, run: (text: string) => Verdict): FuzzTarget<string> {
  const kept = readCorpusTexts(name);
  return { name, isDecoder: true, kept, inputs: mutatedTexts(kept), run };
}

function readTable(text: string): Verdict {
  return verdictOf(
    () => {
      const half = text.length >> 1;
      const splitter = new ProcTableSplitter((block) => {
        assert.ok(Number.isSafeInteger(block.hash()));
        const [, realServers] = block.read() ?? [];
        for (const { port, weight } of realServers ?? []) {
          assert.ok(port <= 65_535 && weight >= 0);
        }
        return true;
      });
      splitter.take(Buffer.from(text.slice(0, half)));
      splitter.take(Buffer.from(text.slice(half)));
      splitter.finish();
    },
    (error) => error instanceof DecodeError,
  );
}

/** What is read as one of our rules must be written as the same line, or it would be written anew for ever. */
function readRules(text: string): Verdict {
  return verdictOf(
    () => {
      for (const { rules } of parseSaved("IPv4", text)) {
        for (const { rule, text: line } of rules) {
          if (rule !== undefined) assert.equal(renderRule("IPv4", rule), line);
        }
      }
    },
    (error) => error instanceof SavedTextError,
  );
}

export const targets: readonly FuzzTarget<string>[] = [
  targetOf("proc-net-ip-vs", readTable),
  targetOf("iptables-save", readRules),
];
