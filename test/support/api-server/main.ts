/**
 * The test API server as a program:
 *
 *     node test/support/api-server/main.ts [--host 127.0.0.1] [--port 0] [--control-port 0]
 *       [--objects FILE] [--ignore-limit] [--token TOKEN] [--tls-certificate FILE --tls-key FILE]
 *       [--first-revision N]
 *
 * FILE contains a JSON list of objects, or a List. Prints one line with both addresses when it is listening:
 * `{"url":"http://127.0.0.1:1234","control":"http://127.0.0.1:1235"}`. See control.ts for the commands, such as `curl
 * --data '{"on":"watch","effect":"reset"}' $control/fault`.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { ApiObject } from "../objects.ts";
import { ApiServer } from "./api-server.ts";
import { startControl } from "./control.ts";

const { values } = parseArgs({
  options: {
    host: { type: "string", default: "127.0.0.1" },
    port: { type: "string", default: "0" },
    "control-port": { type: "string", default: "0" },
    objects: { type: "string" },
    token: { type: "string" },
    "tls-certificate": { type: "string" },
    "tls-key": { type: "string" },
    "first-revision": { type: "string" },
    "ignore-limit": { type: "boolean", default: false },
  },
});

const { host, "tls-certificate": certificate, "tls-key": key, "first-revision": first } = values;
const server = await ApiServer.start({
  host,
  port: Number(values.port),
  objects: values.objects === undefined ? [] : readObjects(values.objects),
  ...(values.token === undefined ? {} : { token: values.token }),
  ...(first === undefined ? {} : { firstRevision: Number(first) }),
  ...(certificate === undefined || key === undefined
    ? {}
    : { tls: { cert: readFileSync(certificate), key: readFileSync(key) } }),
});
server.lists.ignoresLimit = values["ignore-limit"];
const control = await startControl(server, { host, port: Number(values["control-port"]) });
process.stdout.write(`${JSON.stringify({ url: server.url, control: control.url })}\n`);

function readObjects(file: string): readonly ApiObject[] {
  const content = JSON.parse(readFileSync(file, "utf8")) as
    | readonly ApiObject[]
    | { readonly items: readonly ApiObject[] };
  return "items" in content ? content.items : content;
}
