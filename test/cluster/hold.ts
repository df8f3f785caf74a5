/**
 * `hold.ts ADDRESS:PORT…`: keeps a connection to each backend open, as `kube-ipvs-e2e hold` does for one backend. It
 * prints one line per connection when all are open, and another with its result when standard input ends.
 */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { type OpenConnection, openConnection } from "../../src/e2e/pod/open-connection.ts";

/** Limit for all connections together. */
const maxPingsPerSecond = 250;
const minPeriodMs = 200;

const held: OpenConnection[] = [];
try {
  for (const target of process.argv.slice(2)) {
    const [host = "", port] = target.split(":");
    held.push(await openConnection(host, Number(port)));
  }
} catch (error) {
  console.error(`hold: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
}
for (const { name } of held) console.log(JSON.stringify({ name }));
const timer = setInterval(
  () => {
    for (const { ping } of held) ping();
  },
  Math.max(minPeriodMs, (held.length * 1_000) / maxPingsPerSecond),
);
process.stdin.resume();
await once(process.stdin, "end");
clearInterval(timer);
const results = held.map(async (connection, index) => {
  await sleep((index * 1_000) / maxPingsPerSecond);
  return connection.end();
});
for (const result of results) console.log(JSON.stringify(await result));
