/**
 * Connects to addresses in turn until it is killed: `node steady-client.ts PORT ADDRESS…`. Prints a line for each
 * connection: the address, and the first line that it received, or `failed`.
 */
import { connect } from "node:net";

const [port = "80", ...addresses] = process.argv.slice(2);
const intervalMs = 50;
const timeoutMs = 2_000;
let turn = 0;

setInterval(() => {
  const address = addresses[turn % addresses.length] ?? "";
  turn += 1;
  const socket = connect(Number(port), address, () => socket.write("name\n"));
  let text = "failed";
  socket.setTimeout(timeoutMs, () => socket.destroy());
  socket.on("error", () => {});
  socket.on("data", (data) => {
    text = data.toString().trim();
  });
  socket.on("close", () => console.log(`${address} ${text}`));
}, intervalMs);
